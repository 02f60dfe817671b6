import type { Command } from 'commander'
import { freezePayouts } from '../money/payouts/payout-batches.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createSession, type Session } from './command.ts'
import { resolveHoster } from './resolve.ts'
import { withDatabase } from './with-database.ts'

/** `switchyard payout freeze` and `release`. */
export function payoutFreezeCommands(): Command[] {
  return [freeze(), release()]
}

function freeze(): Command {
  return createCommand('freeze', 'Pay nothing to a hoster; what it earned stays its own', [
    'payout freeze acme --reason "checks its answers"',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .requiredOption('--reason <text>', 'why; shown to the hoster; required', textArgument)
    .action((hoster: string, options) => setFreeze(createSession(options), hoster, true, options.reason))
}

function release(): Command {
  return createCommand('release', 'Pay a frozen hoster again', ['payout release acme --reason "its answers are right"'])
    .argument('<hoster>', 'name or id', textArgument)
    .requiredOption('--reason <text>', 'why; in the audit log; required', textArgument)
    .action((hoster: string, options) => setFreeze(createSession(options), hoster, false, options.reason))
}

async function setFreeze(session: Session, hoster: string, isFrozen: boolean, reason: string): Promise<void> {
  const { found, changed } = await withDatabase(session, async pool => {
    const found = await resolveHoster(pool, hoster)
    return { found, changed: await freezePayouts(pool, null, { hosterId: found.hosterId, isFrozen, reason }) }
  })
  const state = isFrozen ? 'frozen' : 'not frozen'
  session.output.result(
    { hoster_id: found.hosterId, name: found.name, frozen: isFrozen, changed },
    changed ? `Payouts of ${found.name} are ${state}.` : `Payouts of ${found.name} were ${state} before.`,
  )
}
