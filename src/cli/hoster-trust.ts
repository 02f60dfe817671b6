import type { Command } from 'commander'
import { TRUSTED_ABOVE } from '../base/domain/offer.ts'
import { setContract, setTrustScore } from '../market/supply/hosters/hosters.ts'
import { releaseHoster } from '../market/trust/quarantine-hoster.ts'
import { scoreArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { showHosterChange } from './hoster-change.ts'
import { withDatabase } from './with-database.ts'

/** The commands about the trust in a hoster. */
export function hosterTrustCommands(): Command[] {
  return [trust(), contract(), release()]
}

function trust(): Command {
  return createCommand('trust', "Set a hoster's trust score, or let it count what the hoster has earned", [
    'hoster trust acme 0.9',
    'hoster trust acme earned',
  ])
    .argument('<hoster>', 'name or id')
    .argument(
      '<score>',
      `0 to 1, or "earned"; above ${TRUSTED_ABOVE} the hoster may serve trusted_only requests`,
      (text: string) => (text === 'earned' ? null : scoreArgument(text)),
    )
    .action(async (hoster: string, score: number | null, options) => {
      const session = createSession(options)
      const found = await withDatabase(session, pool => setTrustScore(pool, hoster, score))
      const may = score !== null && score > TRUSTED_ABOVE ? 'may' : 'cannot'
      showHosterChange(
        session,
        found,
        { trust_score: score },
        score === null
          ? 'has the trust score that it has earned.'
          : `has a trust score of ${score} and ${may} serve trusted_only requests.`,
      )
    })
}

function contract(): Command {
  return createCommand('contract', 'Note whether you have a contract with a hoster, which lifts the cap of its score', [
    'hoster contract acme',
    'hoster contract acme --end',
  ])
    .argument('<hoster>', 'name or id')
    .option('--end', 'the contract has ended')
    .action(async (hoster: string, { end, ...options }) => {
      const session = createSession(options)
      const hasContract = end !== true
      const found = await withDatabase(session, pool => setContract(pool, hoster, hasContract))
      const text = hasContract ? 'is under contract: its score can reach 1.' : 'is under no contract.'
      showHosterChange(session, found, { has_contract: hasContract }, text)
    })
}

function release(): Command {
  return createCommand('release', 'End the quarantine of a hoster: it is active again, and its payouts are released', [
    "hoster release acme --reason 'The tokenizer of its model differs'",
  ])
    .argument('<hoster>', 'name or id')
    .requiredOption('--reason <text>', 'the reason, for the audit log and the hoster; required')
    .action(async (hoster: string, { reason, ...options }) => {
      const session = createSession(options)
      const found = await withDatabase(session, pool => releaseHoster(pool, hoster, reason))
      showHosterChange(session, found, { state: 'active' }, 'is active again. Its audits start a new test.')
    })
}
