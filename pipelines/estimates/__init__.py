"""How long work will take and how much it will write, from speeds that were measured."""
