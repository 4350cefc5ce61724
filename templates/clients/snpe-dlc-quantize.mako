=== flag sh
${option}

=== command sh
snpe-dlc-quantize --input_dlc model.dlc --input_list inputs.txt --output_dlc quantized.dlc ${option}
