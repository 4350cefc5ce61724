=== flag sh
${option}

=== command sh
qnn-context-binary-generator --backend ${runtime} --model model.so --binary_file model ${option}
