/** How one simulated hoster behaves. The defaults are those of an honest one. */
export interface Behaviour {
  readonly name: string
  /** Tokens are reported times this. */
  readonly lie: number
  /** The lie applies to the output tokens only. */
  readonly lieOutputOnly: boolean
  /** The part of the requests that another, cheaper model answers. */
  readonly swapShare: number
  /** Only long prompts are answered by the cheaper model. */
  readonly swapLongOnly: boolean
  /** Only requests at another temperature than 0 are answered by the cheaper model. */
  readonly swapSampledOnly: boolean
  /** Cheats only after it has exceeded 0.8. */
  readonly waitsForTrust: boolean
  /** The part of the gateway's own requests that it recognises, and serves honestly. */
  readonly recognises: number
  /** Shares a model with the other colluders, and gives the same answers as they do. */
  readonly colludes: boolean
  /** After a quarantine, the operator registers again under another name. */
  readonly registersAgain: boolean
  /** The part of the requests that fail. Undefined: drawn. */
  readonly faultRate: number | undefined
  /** The part of its requests that its operator sends itself, under four accounts. */
  readonly ownTraffic: number
  /** The gateway knows that these accounts belong to the operator: by a member, a network or a payment identity. */
  readonly isOwnTrafficKnown: boolean
}

export const honestBehaviour: Behaviour = {
  name: 'honest',
  lie: 1,
  lieOutputOnly: false,
  swapShare: 0,
  swapLongOnly: false,
  swapSampledOnly: false,
  waitsForTrust: false,
  recognises: 0,
  colludes: false,
  registersAgain: false,
  faultRate: undefined,
  ownTraffic: 0,
  isOwnTrafficKnown: false,
}

/** An attack on a market: the behaviour of the attackers, their number, and customers that frame an honest hoster. */
export interface Attack {
  readonly name: string
  readonly attackers: number
  readonly behaviour: Behaviour
  readonly reference: boolean
  /** The reference has log probabilities. */
  readonly logprobs: boolean
  /** How many of the nine customers share their requests for comparisons. */
  readonly sharing: number
  /** The part of the traffic of the first honest hoster that comes from customers that frame it, and how many there are. */
  readonly framing: number
  readonly framers: number
  /** How many of their requests they leave in the middle; the rest have poison prompts. */
  readonly disconnects: number
  /** `found`: the claim of the proof covers it. */
  readonly claim: 'found' | 'none'
}

const attack = (name: string, behaviour: Partial<Behaviour>, market: Partial<Attack> = {}): Attack => ({
  name,
  attackers: 1,
  reference: true,
  logprobs: true,
  sharing: 4,
  framing: 0,
  framers: 1,
  disconnects: 0,
  claim: 'none',
  ...market,
  behaviour: { ...honestBehaviour, name, ...behaviour },
})

const mustBeFound = (name: string, behaviour: Partial<Behaviour>, market: Partial<Attack> = {}) =>
  attack(name, behaviour, { claim: 'found', ...market })

/** Each line of the report. */
export const attacks: readonly Attack[] = [
  ...[1.03, 1.05, 1.1, 1.25, 1.5].map(lie => mustBeFound(`reports ${Math.round((lie - 1) * 100)}% too much`, { lie })),
  mustBeFound('reports 5% too much, output only', { lie: 1.05, lieOutputOnly: true }),
  mustBeFound('reports 10% too much once it is trusted', { lie: 1.1, waitsForTrust: true }),
  mustBeFound('swaps the model', { swapShare: 1 }),
  mustBeFound('swaps the model once it is trusted', { swapShare: 1, waitsForTrust: true }),
  mustBeFound('swaps the model; no reference', { swapShare: 1 }, { reference: false }),
  mustBeFound('swaps the model; no logprobs', { swapShare: 1 }, { logprobs: false }),
  mustBeFound(
    'swaps the model; neither reference nor logprobs',
    { swapShare: 1 },
    { reference: false, logprobs: false },
  ),
  mustBeFound('swaps 30% of the requests', { swapShare: 0.3 }),
  attack('swaps 30% of the requests; no logprobs', { swapShare: 0.3 }, { logprobs: false }),
  attack('swaps all but requests at temperature 0', { swapShare: 1, swapSampledOnly: true }),
  attack('swaps 10% of the requests', { swapShare: 0.1 }),
  attack('swaps 10% of the requests; no logprobs', { swapShare: 0.1 }, { logprobs: false }),
  attack('swaps long requests only: one in ten audits', { swapShare: 1, swapLongOnly: true }),
  attack('swaps the model, recognises half of the audits', { swapShare: 1, recognises: 0.5 }),
  attack('swaps the model, recognises 90% of the audits', { swapShare: 1, recognises: 0.9 }),
  attack('swaps the model, recognises every request of the gateway', { swapShare: 1, recognises: 1 }),
  attack('swaps 10% of the requests, recognises every request of the gateway', { swapShare: 0.1, recognises: 1 }),
  attack(
    'swaps the model, recognises every request of the gateway; no customer shares its requests',
    { swapShare: 1, recognises: 1 },
    { sharing: 0 },
  ),
  attack('three of six collude and swap; reference', { swapShare: 1, colludes: true }, { attackers: 3 }),
  attack(
    'three of six collude and swap; no reference',
    { swapShare: 1, colludes: true },
    { attackers: 3, reference: false },
  ),
  mustBeFound(
    'one operator with three of six hosters reports 10% too much; local server',
    { lie: 1.1 },
    { attackers: 3 },
  ),
  attack(
    'one operator with three of six hosters reports 10% too much; no local server',
    { lie: 1.1 },
    { attackers: 3, reference: false },
  ),
  attack(
    'one operator with four of six hosters reports 10% too much; no local server',
    { lie: 1.1 },
    { attackers: 4, reference: false },
  ),
  attack('whitewashing: reports 10% too much, registers again', { lie: 1.1, registersAgain: true }),
  attack('whitewashing: swaps the model, registers again', { swapShare: 1, registersAgain: true }),
  attack('a quarter of its requests fail', { faultRate: 0.25 }),
  attack('a quarter fail; 60% of its requests are its own, from known accounts', {
    faultRate: 0.25,
    ownTraffic: 0.6,
    isOwnTrafficKnown: true,
  }),
  attack('a quarter fail; 60% of its requests are its own, from unknown accounts', {
    faultRate: 0.25,
    ownTraffic: 0.6,
  }),
  attack('framing: a customer sends poison prompts, a fifth of the requests', {}, { attackers: 0, framing: 0.2 }),
  attack(
    'framing: three customers send poison prompts, a fifth of the requests',
    {},
    { attackers: 0, framing: 0.2, framers: 3 },
  ),
  attack(
    'framing: a customer leaves in the middle of its answers, half of the requests',
    {},
    { attackers: 0, framing: 0.5, disconnects: 1 },
  ),
  attack(
    'framing: two competitors answer with other models so that the rest stand out; no reference',
    { swapShare: 1 },
    { attackers: 2, reference: false },
  ),
]
