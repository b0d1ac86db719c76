"""Recipes for `nsys recipe`: where they are put, and what they call.

The folders beside this file are templates that run in the Python of Nsight Systems: the recipes,
and `lanescope_recipe`, what they share. They compute nothing. Each calls lanescope with the
interpreter that `lanescope recipes install` recorded, and shapes what it wrote.
"""
