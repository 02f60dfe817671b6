import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { ownCommand } from '../base/runtime/own-command.ts'
import { alertCommands } from './alert.ts'
import { backupCommand } from './backup.ts'
import { cellCommands } from './cell.ts'
import { addGroupOptions } from './command.ts'
import { completionCommand } from './completion.ts'
import { configCommands } from './config.ts'
import { creditCommands } from './credit.ts'
import { customerCommands } from './customer.ts'
import { doctorCommand } from './doctor/doctor.ts'
import { exportCommand } from './export.ts'
import { hostCommand } from './host/host.ts'
import { hosterCommands } from './hoster.ts'
import { importCommand } from './import.ts'
import { initCommand } from './init.ts'
import { journalCommands } from './journal.ts'
import { keyCommands } from './key.ts'
import { keyRingCommands } from './key-ring.ts'
import { ledgerCommands } from './ledger.ts'
import { migrateCommand } from './migrate.ts'
import { modelCommands } from './model.ts'
import { operatorCommands } from './operator.ts'
import { paymentCommands } from './payments.ts'
import { payoutCommands } from './payout.ts'
import { personCommands } from './person.ts'
import { priceCommands } from './price.ts'
import { priceGroupCommands } from './price-group.ts'
import { restoreCommand } from './restore.ts'
import { startCommand } from './start.ts'
import { usageCommands } from './usage.ts'
import { voucherCommands } from './voucher.ts'

/** Returns the whole command line. Every command writes its result to stdout and everything else to stderr. */
export function createProgram(): Command {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  const program = addGroupOptions(new Command('switchyard'))
    .description('A self-hosted, OpenAI-compatible gateway that sells text generation for prepaid credit')
    .version(version, '--version', 'print the version')
    .helpCommand(false)
    .addHelpText(
      'after',
      `\nEach command has its own help: ${ownCommand('key issue --help')}\nExit codes: 0 success, 1 failure, 2 wrong usage, 3 another process is doing the same work`,
    )
  const commands = [
    startCommand(),
    initCommand(),
    migrateCommand(),
    customerCommands(),
    operatorCommands(),
    personCommands(),
    keyCommands(),
    creditCommands(),
    paymentCommands(),
    voucherCommands(),
    hosterCommands(),
    payoutCommands(),
    hostCommand(),
    configCommands(),
    modelCommands(),
    priceCommands(),
    priceGroupCommands(),
    alertCommands(),
    ledgerCommands(),
    usageCommands(),
    journalCommands(),
    keyRingCommands(),
    cellCommands(),
    backupCommand(),
    restoreCommand(),
    exportCommand(),
    importCommand(),
    doctorCommand(),
    completionCommand(),
  ]
  for (const command of commands) program.addCommand(command)
  return program
}
