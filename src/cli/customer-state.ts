import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { usdText } from '../base/domain/money.ts'
import { setDisabled } from '../money/accounts/customers.ts'
import { noteCustomerChange, readCustomerState } from '../money/accounts/note-customer.ts'
import { eraseCustomer } from '../operator/erase.ts'
import { exportCustomer } from '../operator/export-personal-data.ts'
import { createCommand, createSession } from './command.ts'
import { confirm } from './confirm.ts'
import { counted } from './counted.ts'
import { Failure } from './failure.ts'
import { resolveCustomer } from './resolve.ts'
import { withDatabase } from './with-database.ts'
import { writeNewFile } from './write-new-file.ts'

export function disableCustomerCommand(): Command {
  return stateCommand(
    'disable',
    'Refuse all keys of a customer until it is enabled again; running requests finish',
    true,
  )
}

export function enableCustomerCommand(): Command {
  return stateCommand('enable', 'Accept the keys of a disabled customer again', false)
}

function stateCommand(name: 'disable' | 'enable', summary: string, disabled: boolean): Command {
  return createCommand(name, summary, [`customer ${name} ada@example.com`])
    .argument('<customer>', 'e-mail or id')
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      const { customer, changed } = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await resolveCustomer(sql, emailOrId)
          const before = await readCustomerState(sql, found)
          const changed = await setDisabled(sql, found.customerId, disabled)
          await noteCustomerChange(sql, commandLine, found, { before, after: { ...before, isPaused: disabled } })
          return { customer: found, changed }
        }),
      )
      const { customerId, email } = customer
      const state = disabled ? 'disabled; its keys are refused within two seconds' : 'active'
      session.output.result(
        { customer_id: customerId, email, disabled, changed },
        changed ? `${email} is ${state}.` : `${email} was already ${disabled ? 'disabled' : 'active'}.`,
      )
    })
}

export function exportCustomerCommand(): Command {
  return createCommand('export', 'Write all that is kept of a customer to a file, as JSON', [
    'customer export ada@example.com ada.json',
  ])
    .argument('<customer>', 'e-mail or id')
    .argument('<file>', 'file to write; only its owner can read it')
    .action(async (emailOrId: string, file: string, options) => {
      const session = createSession(options)
      const { customerId, email, path } = await withDatabase(session, async pool => {
        const { customerId, email } = await resolveCustomer(pool, emailOrId)
        const customer = { customerId, email }
        const path = await writeNewFile(file, async () => (await exportCustomer(pool, commandLine, customer)).json)
        return { customerId, email, path }
      })
      session.output.result({ customer_id: customerId, email, file: path }, `Wrote ${path}.`)
    })
}

export function deleteCustomerCommand(): Command {
  return createCommand(
    'delete',
    'Revoke all keys of a customer, erase its e-mail address and the accounts of people who belong to nothing else, for good; its balance and ledger stay',
    ['customer delete ada@example.com', 'customer delete ada@example.com --yes --json'],
  )
    .argument('<customer>', 'e-mail or id')
    .option('--yes', 'do not ask for confirmation')
    .action(async (emailOrId: string, options) => {
      const session = createSession(options)
      if (options.yes !== true) {
        const question = `Delete ${emailOrId}? This cannot be undone.`
        await confirm(session, question, 'Add --yes to confirm.')
      }
      const done = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const { customerId, email } = await resolveCustomer(sql, emailOrId)
          const erased = await eraseCustomer(sql, commandLine, customerId)
          if (erased === undefined)
            throw new Failure(
              `An operator is a member of ${email}. End that membership, or disable the customer instead. Nothing was changed.`,
            )
          return { customerId, email, ...erased }
        }),
      )
      const balance = usdText(done.balanceNanos)
      session.output.result(
        { customer_id: done.customerId, deleted: true, revoked_keys: done.revokedKeys, balance_usd: balance },
        `Deleted ${done.email}: revoked ${counted(done.revokedKeys, 'key')}. Its balance of ${balance} USD and its ledger stay under the id ${done.customerId}.`,
      )
    })
}
