"""The rooms put together as streaming operators. The only room that imports Ray Data."""
