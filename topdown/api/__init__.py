"""What a program calls: one function for each thing a command does, without a screen. `import topdown` names them."""
