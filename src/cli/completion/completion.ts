import { Argument, type Command } from 'commander'
import { createCommand, createCommandOutput } from '../command.ts'
import { bashScript } from './bash-script.ts'
import { type CompletedCommand, commandTree } from './command-tree.ts'
import { fishScript } from './fish-script.ts'
import { zshScript } from './zsh-script.ts'

const scripts: Readonly<Record<string, (tree: readonly CompletedCommand[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

export function completionCommand(): Command {
  const command = createCommand('completion', 'Print a script with which a shell completes commands and options', [
    'completion bash',
    'completion fish > ~/.config/fish/completions/switchyard.fish',
  ])
  return command
    .addArgument(new Argument('<shell>', 'bash, zsh or fish').choices(Object.keys(scripts)))
    .action((shell: string, options) => {
      const script = scripts[shell]!(commandTree(command.parent!))
      createCommandOutput(options).result({ script }, script.trimEnd())
    })
}
