import { ownCommand } from '../../base/runtime/own-command.ts'
import type { CompletedCommand, CompletedOption } from './command-tree.ts'

/** Returns a script for fish 3 or newer. */
export function fishScript(tree: readonly CompletedCommand[]): string {
  const commands = tree.filter(({ path }) => path !== '').map(({ path }) => quoted(path))
  const optionsWithValue = tree.flatMap(({ path, options }) =>
    options
      .filter(({ takes }) => takes !== 'nothing')
      .flatMap(({ flags }) => flags.map(flag => quoted(`${path} ${flag}`))),
  )
  return `# Completion of switchyard for fish. Load it with: ${ownCommand('completion fish')} | source
function __switchyard_path
  set -l path ''
  set -l skip 0
  for word in (commandline -opc)[2..-1]
    if test $skip = 1
      set skip 0
      continue
    end
    switch "$path $word"
      case ${optionsWithValue.join(' ')}
        set skip 1
      case ${commands.join(' ')}
        set path "$path $word"
    end
  end
  echo "$path"
end
function __switchyard_at
  test (__switchyard_path) = "$argv[1]"
end
complete -c switchyard -f
${tree.flatMap(linesOf).join('\n')}
`
}

function linesOf({ path, commands, options, choices, takesFile }: CompletedCommand): string[] {
  const start = `complete -c switchyard -n ${quoted(`__switchyard_at ${quoted(path)}`)}`
  return [
    ...commands.map(({ name, description }) => `${start} -a ${name} -d ${quoted(description)}`),
    ...choices.map(choice => `${start} -a ${quoted(choice)}`),
    ...(takesFile ? [`${start} -F`] : []),
    ...options.map(option => `${start} ${optionText(option)} -d ${quoted(option.description)}`),
  ]
}

function optionText({ flags, takes }: CompletedOption): string {
  const names = flags.map(flag => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`)).join(' ')
  if (takes === 'nothing') return names
  if (takes === 'file') return `${names} -rF`
  return takes === 'value' ? `${names} -x` : `${names} -x -a ${quoted(takes.join(' '))}`
}

/** In single quotes, fish knows only two escapes. */
function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
