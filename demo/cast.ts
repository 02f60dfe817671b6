import type { ModelTraits } from './simulated-model.ts'
import type { ServedModel, ServerBehaviour } from './simulated-server.ts'

/** The model that the simulated hosters and the cloud sell. */
export const soldModel: ServedModel = { id: 'sim-large', contextTokens: 32_768, maxOutputTokens: 4_096 }

const large: ModelTraits = { skill: 0.98, spread: 1 }
const small: ModelTraits = { skill: 0.35, spread: 2.2 }

const honest: ServerBehaviour = {
  traits: large,
  firstTokenMs: 250,
  tokensPerSecond: 120,
  failureShare: () => 0.002,
  breakShare: 0.001,
  reportFactor: 1,
}

/** A simulated hoster: what it charges in USD per million tokens, and how it behaves. */
export interface CastMember {
  readonly name: string
  readonly description: string
  readonly inputUsd: string
  readonly outputUsd: string
  /** Reaches the gateway by `switchyard host` instead of by an address, some seconds after the start. */
  readonly joinsByAgent: boolean
  readonly behaviour: ServerBehaviour
}

/** The six hosters of the demo. Each shows another side of routing and trust. */
export const cast: readonly CastMember[] = [
  {
    name: 'Simulated - cheap and slow',
    description: 'an honest server with the lowest price',
    inputUsd: '0.05',
    outputUsd: '0.20',
    joinsByAgent: false,
    behaviour: { ...honest, firstTokenMs: 900, tokensPerSecond: 35 },
  },
  {
    name: 'Simulated - fast and expensive',
    description: 'an honest server with the shortest waits',
    inputUsd: '0.40',
    outputUsd: '1.60',
    joinsByAgent: false,
    behaviour: { ...honest, firstTokenMs: 80, tokensPerSecond: 400 },
  },
  {
    name: 'Simulated - flaky',
    description: 'fails for half a minute, every three minutes',
    inputUsd: '0.08',
    outputUsd: '0.30',
    joinsByAgent: false,
    behaviour: { ...honest, failureShare: elapsedS => (elapsedS % 180 < 30 ? 0.9 : 0.01), breakShare: 0.01 },
  },
  {
    name: 'Simulated - dishonest meter',
    description: 'reports 25% more tokens than there are',
    inputUsd: '0.07',
    outputUsd: '0.28',
    joinsByAgent: false,
    behaviour: { ...honest, reportFactor: 1.25 },
  },
  {
    name: 'Simulated - model swapper',
    description: 'answers with a smaller model than it sells',
    inputUsd: '0.06',
    outputUsd: '0.25',
    joinsByAgent: false,
    behaviour: { ...honest, swap: { traits: small, share: 1 } },
  },
  {
    name: 'Simulated - newcomer',
    description: 'an honest server behind the agent, new in the market',
    inputUsd: '0.09',
    outputUsd: '0.35',
    joinsByAgent: true,
    behaviour: { ...honest, firstTokenMs: 180 },
  },
]

/** The cloud that serves when no hoster may. It is also the reference for the fingerprints of the model. */
export const cloudBehaviour: ServerBehaviour = { ...honest, firstTokenMs: 350, tokensPerSecond: 150 }
