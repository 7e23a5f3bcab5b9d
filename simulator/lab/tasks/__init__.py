"""Small worlds to learn in; each offers what `simulator.lab.parts.Task` asks for."""
