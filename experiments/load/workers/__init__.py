"""One folder for each load worker that comes with Sparecraft, a program: `python -m` its package
(README.md beside this folder says what a worker is told and what it tells)."""
