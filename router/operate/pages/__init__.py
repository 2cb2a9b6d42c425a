"""The pages of dead letters and of the doctor."""
