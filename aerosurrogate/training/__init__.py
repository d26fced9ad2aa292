"""Training by recipe: loop.py is where it starts, run.py the folder it leaves behind."""
