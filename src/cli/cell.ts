import type { Command } from 'commander'
import { cellLinkCommand } from './cell-link.ts'
import { createCommandGroup } from './command.ts'

export function cellCommands(): Command {
  return createCommandGroup('cell', 'Join installations as cells that serve each other’s customers', [
    cellLinkCommand(),
  ])
}
