"""The evaluation kit: goals with ends that a machine can check, run with any model through the whole product."""
