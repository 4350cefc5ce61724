// The kernel of ${op.name}, in the style of Qualcomm's generators: it is yours.
