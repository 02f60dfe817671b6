import type { Command } from 'commander'
import { type Pool, transaction } from '../base/db/pool.ts'
import type { HosterState } from '../base/domain/hoster-state.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { findPerson } from '../identity/people/persons.ts'
import { applyAsHoster } from '../market/marketplace/apply.ts'
import { commandLineActor } from '../market/marketplace/change-hoster-state.ts'
import { activateHoster, operateHoster } from '../market/marketplace/operate-hoster.ts'
import { listStateChanges, showVerification } from '../market/marketplace/show-hoster.ts'
import { AGENT_BASE_URL, findHoster, listHosters } from '../market/supply/hosters/hosters.ts'
import { emailArgument, textArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { readUpstreamKey, showHosterChange, upstreamKeyOption } from './hoster-change.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

/** The commands that change the state of a hoster, and those that a review needs. */
export function hosterStateCommands(): Command[] {
  return [apply(), review(), approve(), reject(), activate(), suspend(), resume(), retire()]
}

function apply(): Command {
  return createCommand('apply', 'Make a hoster for a person, to be verified and reviewed', [
    'hoster apply acme https://models.acme.dev/v1 --owner ada@acme.dev --key-file acme.key',
    'hoster apply garage --owner ada@acme.dev',
  ])
    .argument('<name>', 'name, unique among hosters')
    .argument('[url]', 'https URL, up to and including /v1; without one, an agent connects to the gateway')
    .requiredOption('--owner <email>', 'the person who owns it; required', emailArgument)
    .addOption(upstreamKeyOption())
    .option('--key-file <file>', "file with the hoster's API key; - reads standard input")
    .action(async (name: string, url: string | undefined, options) => {
      const session = createSession(options)
      const { config } = session
      const server =
        url === undefined
          ? ({ transport: 'agent', baseUrl: null, apiKey: null } as const)
          : ({ transport: 'direct', baseUrl: url, apiKey: readUpstreamKey(options) ?? null } as const)
      const hosterId = await withDatabase(session, async pool => {
        const person = await findPerson(pool, options.owner)
        if (person === undefined)
          throw new Failure(`Nobody here has the address ${options.owner}. Invite the person first.`)
        const rules = {
          masterKeys: await requireMasterKeys(session, pool),
          allowPrivateUrls: config.hosters.allowPrivateUrls,
        }
        const { personId } = person
        const application = {
          name,
          server,
          personId,
          shareBps: config.platform.hosterShareBps,
          actor: commandLineActor,
        }
        return await transaction(pool, sql => applyAsHoster(sql, application, rules))
      })
      const text = `${name} has applied as ${hosterId}. Its owner is ${options.owner}.`
      session.output.result({ hoster_id: hosterId, name, state: 'applied', owner: options.owner }, text)
      session.output.note(
        `Next: ${ownCommand(`hoster key issue ${quoteForShell(name)} --name ... --scope manage,serve`)}`,
      )
    })
}

/** The states that wait for something. */
const waiting: ReadonlySet<HosterState> = new Set(['applied', 'pending', 'verified'])

function review(): Command {
  return createCommand('review', 'List the hosters that wait for a review, or show one with all checks', [
    'hoster review',
    'hoster review acme',
  ])
    .argument('[hoster]', 'name or id; default: all that wait')
    .action(async (hoster: string | undefined, options) => {
      const session = createSession(options)
      await withDatabase(session, async pool => {
        if (hoster !== undefined) return showReview(pool, hoster, session)
        const listed = (await listHosters(pool)).filter(({ state }) => waiting.has(state))
        session.output.result(
          listed.map(({ hosterId, name, state, baseUrl, createdAt }) => ({
            hoster_id: hosterId,
            name,
            state,
            base_url: baseUrl,
            created_at: createdAt.toISOString(),
          })),
          table(
            ['name', 'state', 'models', 'url', 'since'],
            listed.map(each => [
              each.name,
              each.state,
              String(each.models.length),
              serverText(each.baseUrl),
              each.createdAt.toISOString(),
            ]),
            'No hoster waits for a review.',
          ),
        )
      })
    })
}

async function showReview(pool: Pool, hoster: string, { output }: ReturnType<typeof createSession>): Promise<void> {
  const { hosterId, name } = await findHoster(pool, hoster)
  const [found, changes] = [await showVerification(pool, hosterId), await listStateChanges(pool, hosterId)]
  const line = (what: string, { passed, problem }: { passed: boolean; problem: string | null }) =>
    `${what.padEnd(9)}  ${passed ? 'passed' : (problem ?? 'not checked yet')}`
  const probes = found.probes.map(
    ({ model, passed, problem }) => `probe      ${model}: ${problem ?? `${passed} of 3 passed`}`,
  )
  const history = changes.map(
    ({ at, from, to, by, reason }) => `${at.toISOString()}  ${from ?? 'new'} to ${to} by ${by}: ${reason}`,
  )
  const text = [
    `${name} (${hosterId}) is ${found.state}.`,
    line('challenge', found.challenge),
    line('manifest', found.manifest),
    line('prices', found.prices),
    ...probes,
    ...history,
  ]
  const { state, challenge, manifest, prices } = found
  output.result(
    {
      hoster_id: hosterId,
      name,
      state,
      challenge: { passed: challenge.passed, problem: challenge.problem },
      manifest,
      prices,
      probes: found.probes,
      state_changes: changes.map(({ at, ...change }) => ({ ...change, at: at.toISOString() })),
    },
    text.join('\n'),
  )
}

function approve(): Command {
  return createCommand('approve', 'Let a verified hoster receive requests', [
    'hoster approve acme',
    'hoster approve acme --override --reason "Known for years"',
  ])
    .argument('<hoster>', 'name or id')
    .option('--override', 'approve it although it is not verified; needs --reason')
    .option('--reason <text>', 'for the audit log', textArgument)
    .action(async (hoster: string, options) => {
      if (options.override && options.reason === undefined) throw new UsageError('--override needs --reason.')
      const session = createSession(options)
      const found = await withDatabase(session, async pool => {
        const { hosterId } = await findHoster(pool, hoster)
        const { state } = await showVerification(pool, hosterId)
        if (state !== 'verified' && !options.override) {
          const next = ownCommand(`hoster review ${quoteForShell(hoster)}`)
          throw new Failure(
            `The hoster is ${state}, not verified. See: ${next}. To approve it anyway, add --override --reason.`,
          )
        }
        return activateHoster(pool, hosterId, options.reason ?? 'The operator approved it.')
      })
      showHosterChange(session, found, { state: 'active' }, 'is active and receives requests.')
    })
}

function activate(): Command {
  return createCommand('activate', 'Let a hoster receive requests', ['hoster activate acme'])
    .argument('<hoster>', 'name or id')
    .option('--reason <text>', 'for the audit log', textArgument)
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const found = await withDatabase(session, pool => activateHoster(pool, hoster, options.reason))
      const text =
        found.pricedModels > 0
          ? 'is active and receives requests.'
          : `is active but receives no requests: it needs a price first. Next: ${ownCommand(`hoster price ${quoteForShell(found.name)} <model> ...`)}`
      showHosterChange(session, found, { state: 'active', models: found.pricedModels }, text)
    })
}

const suspend = () =>
  change('suspend', 'Stop sending requests to a hoster; running ones finish and are paid', {
    to: 'suspended',
    reason: 'The operator suspended it.',
    text: 'is suspended and receives no new requests.',
  })

const resume = () =>
  change('resume', 'End the suspension or the pause of a hoster', {
    to: 'active',
    reason: 'The operator resumed it.',
    text: 'is active and receives requests.',
    from: { states: new Set(['suspended', 'paused']), otherwise: 'approve' },
  })

const reject = () =>
  change('reject', 'Reject the application of a hoster; it cannot come back', {
    to: 'retired',
    text: 'is rejected.',
    from: { states: waiting, otherwise: 'retire' },
  })

const retire = () =>
  change('retire', 'End a hoster for good; its keys end, and what it has earned stays payable', {
    to: 'retired',
    text: 'is retired.',
  })

interface ChangeCommand {
  readonly to: HosterState
  /** Follows the name of the hoster. */
  readonly text: string
  /** Used when no reason is given. Without it, a reason is required. */
  readonly reason?: string
  /** The states that it applies to, and the command for others; default: all. */
  readonly from?: { readonly states: ReadonlySet<HosterState>; readonly otherwise: string }
}

function change(name: string, summary: string, { to, text, reason, from }: ChangeCommand): Command {
  const example = reason === undefined ? `hoster ${name} acme --reason "No such address"` : `hoster ${name} acme`
  const command = createCommand(name, summary, [example]).argument('<hoster>', 'name or id')
  const withReason =
    reason === undefined
      ? command.requiredOption('--reason <text>', 'for the audit log and the hoster; required', textArgument)
      : command.option('--reason <text>', 'for the audit log', textArgument)
  return withReason.action(async (hoster: string, options) => {
    const session = createSession(options)
    const found = await withDatabase(session, async pool => {
      if (from !== undefined) {
        const { hosterId } = await findHoster(pool, hoster)
        const { state } = await showVerification(pool, hosterId)
        if (!from.states.has(state))
          throw new Failure(
            `The hoster is ${state}. Use: ${ownCommand(`hoster ${from.otherwise} ${quoteForShell(hoster)}`)}`,
          )
      }
      return operateHoster(pool, hoster, { to, reason: options.reason ?? reason! })
    })
    showHosterChange(session, found, { state: to }, text)
  })
}

/** Returns the address of a hoster's server, or `agent` for one that connects to the gateway. */
export function serverText(baseUrl: string): string {
  return baseUrl === AGENT_BASE_URL ? 'agent' : baseUrl
}
