import type { Command } from 'commander'
import { cellLinkCommand } from './cell-link.ts'
import { cellMoveCommand } from './cell-move.ts'
import { cellSumsCommand } from './cell-sums.ts'
import { createCommandGroup } from './command.ts'

export function cellCommands(): Command {
  return createCommandGroup('cell', 'Join installations as cells that serve each other’s customers', [
    cellLinkCommand(),
    cellMoveCommand(),
    cellSumsCommand(),
  ])
}
