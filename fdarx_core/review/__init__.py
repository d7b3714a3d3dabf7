"""What people say of questions and answers: what they are asked, how it was drawn, and what came back."""
