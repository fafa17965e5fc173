"""What every code executor of this project does alike: the gate for calls, and what each rest of a guest means."""
