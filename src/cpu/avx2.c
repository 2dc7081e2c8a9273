typedef int tb_placeholder_avx2;
