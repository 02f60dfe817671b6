import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { alertCommands } from './alert.ts'
import { creditCommands } from './credit.ts'
import { customerCommands } from './customer.ts'
import { doctorCommand } from './doctor.ts'
import { hosterCommands } from './hoster.ts'
import { initCommand } from './init.ts'
import { keyCommands } from './key.ts'
import { ledgerCommands } from './ledger.ts'
import { modelCommands } from './model.ts'
import { startCommand } from './start.ts'
import { before } from './verb.ts'

/** The whole command line. Every command reports its result on stdout and all else on stderr. */
export function createProgram(): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  const program = before(new Command('switchyard'))
    .description('A self-hosted, OpenAI-compatible gateway that sells text generation for prepaid credit')
    .version(version, '--version', 'print the version')
    .helpCommand(false)
    .addHelpText(
      'after',
      '\nEach command has its own help: switchyard key issue --help\nExit codes: 0 done, 1 failed, 2 wrong usage',
    )
  const commands = [
    startCommand(),
    initCommand(),
    customerCommands(),
    keyCommands(),
    creditCommands(),
    hosterCommands(),
    modelCommands(),
    alertCommands(),
    ledgerCommands(),
    doctorCommand(),
  ]
  for (const command of commands) program.addCommand(command)
  return program
}
