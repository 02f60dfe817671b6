import type { Command } from 'commander'
import { createCommandGroup } from './command.ts'
import { keyRingAdoptCommand } from './key-ring-adopt.ts'
import { keyRingForgetCommand } from './key-ring-forget.ts'
import { keyRingRotateCommand } from './key-ring-rotate.ts'
import { keyRingStatusCommand } from './key-ring-status.ts'

export function keyRingCommands(): Command {
  return createCommandGroup('key-ring', 'Replace the master key while the gateways serve', [
    keyRingStatusCommand(),
    keyRingRotateCommand(),
    keyRingForgetCommand(),
    keyRingAdoptCommand(),
  ])
}
