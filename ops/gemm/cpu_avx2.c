typedef int rfg_not_yet;
