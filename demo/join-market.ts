import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { DemoLanguage } from '../src/wire/demo-model/demo-language.ts'
import { type CastMember, soldModel } from './cast.ts'
import type { ConsoleClient } from './console-client.ts'
import type { DemoGateway } from './gateway.ts'
import { startSimulatedServer } from './simulated-server.ts'

export interface Market {
  readonly directory: string
  readonly gateway: DemoGateway
  readonly operator: ConsoleClient
  /** The person who applies. */
  readonly owner: ConsoleClient
  readonly language: DemoLanguage
  /** What ends the demo, in the order of the starts. */
  readonly closing: (() => Promise<unknown> | unknown)[]
  /** Notes a process that must end with the demo, even if the demo is killed. */
  readonly onStarted: (pid: number) => void
}

/** What the console shows of a hoster. */
export interface HosterView {
  readonly name: string
  readonly state: string
  readonly score: number
  /** With those that nobody can judge yet. */
  readonly audits: number
  /** Null: not quarantined. */
  readonly quarantineReason: string | null
  readonly earnedUsd: number
}

export interface Joined {
  show(): Promise<HosterView>
}

/** Takes a simulated hoster through its whole way into the market: application, manifest, verification, approval. */
export async function joinMarket(market: Market, member: CastMember): Promise<Joined> {
  const { owner, operator, language, closing } = market
  let nonce: string | undefined
  const server = await startSimulatedServer(language, soldModel, member.behaviour, path =>
    path === '/v1/switchyard-challenge' && nonce !== undefined ? JSON.stringify({ challenge: nonce }) : undefined,
  )
  closing.push(() => server.close())
  const application = member.joinsByAgent
    ? { name: member.name, transport: 'agent' }
    : { name: member.name, transport: 'direct', base_url: server.baseUrl }
  const { id } = await owner.send<{ id: string }>('POST', 'hosters', application)
  const path = `hosters/${id}`
  if (member.joinsByAgent) await startAgent(market, path, server.baseUrl)
  await owner.send('PUT', `${path}/manifest`, manifestOf(member))
  // The first check comes too early: its answer has the nonce that the server must publish.
  ;({ nonce } = (await owner.send<Verification>('POST', `${path}/verification`)).challenge)
  const stateOf = async () => (await owner.get<{ state: string }>(path)).state
  for (let tries = 0; (await stateOf()) !== 'verified'; tries++) {
    const found = await owner.get<Verification>(`${path}/verification`)
    if (tries === TRIES_MAX) throw new Error(`${member.name} was not verified: ${JSON.stringify(found)}`)
    if (found.checked_at !== null) await owner.send('POST', `${path}/verification`).catch(ignoreVerified)
    await delay(1_000)
  }
  await operator.send('PATCH', `operator/${path}`, { state: 'active', reason: 'Part of the demo.' })
  return { show: () => viewOf(market, path) }
}

/** The hoster itself sees its audits late, so the operator looks. */
async function viewOf({ owner, operator }: Market, path: string): Promise<HosterView> {
  const trust = await operator.get<Trust>(`operator/${path}/trust`)
  const { balance_usd: earnedUsd } = await owner.get<{ balance_usd: number }>(`${path}/earnings`)
  const { name, state, score, quarantine_reason: quarantineReason } = trust
  const audits = trust.signals.reduce((sum, { passed, failed, undecided }) => sum + passed + failed + undecided, 0)
  return { name, state, score, audits, quarantineReason, earnedUsd }
}

interface Trust {
  readonly name: string
  readonly state: string
  readonly score: number
  readonly quarantine_reason: string | null
  readonly signals: readonly { readonly passed: number; readonly failed: number; readonly undecided: number }[]
}

const TRIES_MAX = 60

interface Verification {
  readonly challenge: { readonly nonce: string }
  /** Null while a check is running. */
  readonly checked_at: string | null
}

/** The hoster may have become verified since it was read. */
function ignoreVerified(): void {}

async function startAgent(market: Market, path: string, upstream: string): Promise<void> {
  const { directory, gateway, owner, closing } = market
  const issued = await owner.send<{ key: string }>('POST', `${path}/keys`, { name: 'agent', scopes: ['serve'] })
  const keyFile = join(directory, 'host.key')
  writeFileSync(keyFile, issued.key, { mode: 0o600 })
  const agent = gateway.startAgent(keyFile, upstream)
  market.onStarted(agent.pid!)
  const ended = once(agent, 'close')
  closing.push(() => {
    agent.kill('SIGTERM')
    return ended
  })
}

function manifestOf({ inputUsd, outputUsd }: CastMember): object {
  return {
    region: 'DE',
    data_policy: { trains_on_data: false, retention_days: 0 },
    models: [
      {
        id: soldModel.id,
        context_length: soldModel.contextTokens,
        max_output_length: soldModel.maxOutputTokens,
        pricing: { prompt: perToken(inputUsd), completion: perToken(outputUsd) },
      },
    ],
  }
}

/** Converts USD per million tokens to USD per token. */
function perToken(usdPerMillion: string): string {
  return (Number(usdPerMillion) / 1_000_000).toFixed(9)
}
