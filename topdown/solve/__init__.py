"""From noisy answers to whole people that add up; sees public files only."""
