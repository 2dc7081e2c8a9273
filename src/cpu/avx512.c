typedef int tb_placeholder_avx512;
