=== flag sh
${option}

=== command sh
qnn-net-run --backend ${runtime} --model model.so --input_list inputs.txt ${option}
