# ${title}

Made by `udogen new`; all files are yours.

```sh
% for command in commands:
${command}
% endfor
```

| file | contents |
|---|---|
% for path, contents in files:
| `${path}` | ${contents} |
% endfor

`make test` compares ${ops} with numpy on every backend of this machine, and names the cause of wrong numbers.
% if several:
Each op has a package of its own: ONNX Runtime takes one op per package in a session.
% endif
