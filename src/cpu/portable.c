typedef int tb_placeholder_portable;
