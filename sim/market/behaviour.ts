/** How one simulated hoster behaves. The defaults are those of an honest one. */
export interface Behaviour {
  readonly name: string
  /** Tokens are reported times this. */
  readonly lie: number
  /** The part of the tokens to which the lie applies. */
  readonly lieOutputOnly: boolean
  /** The part of the requests that another, cheaper model answers. */
  readonly swapShare: number
  /** Only long prompts are answered by the cheaper model. */
  readonly swapLongOnly: boolean
  /** Cheats only after it has exceeded 0.8. */
  readonly waitsForTrust: boolean
  /** The part of the gateway's own requests that it recognises, and serves honestly. */
  readonly recognises: number
  /** Shares a model with the other colluders, and gives the same answers as they do. */
  readonly colludes: boolean
}

const honest: Behaviour = {
  name: 'honest',
  lie: 1,
  lieOutputOnly: false,
  swapShare: 0,
  swapLongOnly: false,
  waitsForTrust: false,
  recognises: 0,
  colludes: false,
}

/** An attack on a market: the behaviour of the attackers, their number, and customers that frame an honest hoster. */
export interface Attack {
  readonly name: string
  readonly attackers: number
  readonly behaviour: Behaviour
  readonly reference: boolean
  readonly logprobs: boolean
  /** The part of the traffic of the first honest hoster that comes from a customer with poison prompts. */
  readonly framing: number
}

const attack = (name: string, behaviour: Partial<Behaviour>, market: Partial<Attack> = {}): Attack => ({
  name,
  attackers: 1,
  reference: true,
  logprobs: true,
  framing: 0,
  ...market,
  behaviour: { ...honest, name, ...behaviour },
})

export const honestBehaviour = honest

/** Each line of the report. The claim of the proof covers those marked `mustBeFound`. */
export const attacks: readonly (Attack & { readonly mustBeFound: boolean })[] = [
  ...[1.03, 1.05, 1.1, 1.25, 1.5].map(lie => ({
    ...attack(`reports ${Math.round((lie - 1) * 100)}% too much`, { lie }),
    mustBeFound: true,
  })),
  { ...attack('reports 5% too much, output only', { lie: 1.05, lieOutputOnly: true }), mustBeFound: true },
  {
    ...attack('reports 10% too much once it is trusted', { lie: 1.1, waitsForTrust: true }),
    mustBeFound: true,
  },
  { ...attack('swaps the model', { swapShare: 1 }), mustBeFound: true },
  { ...attack('swaps the model once it is trusted', { swapShare: 1, waitsForTrust: true }), mustBeFound: true },
  {
    ...attack('swaps the model; no reference', { swapShare: 1 }, { reference: false }),
    mustBeFound: true,
  },
  {
    ...attack('swaps the model; no logprobs', { swapShare: 1 }, { logprobs: false }),
    mustBeFound: true,
  },
  {
    ...attack(
      'swaps the model; neither reference nor logprobs',
      { swapShare: 1 },
      { reference: false, logprobs: false },
    ),
    mustBeFound: true,
  },
  { ...attack('swaps 30% of the requests', { swapShare: 0.3 }), mustBeFound: false },
  { ...attack('swaps 10% of the requests', { swapShare: 0.1 }), mustBeFound: false },
  {
    ...attack('swaps 10% of the requests; no logprobs', { swapShare: 0.1 }, { logprobs: false }),
    mustBeFound: false,
  },
  { ...attack('swaps long requests only', { swapShare: 1, swapLongOnly: true }), mustBeFound: false },
  {
    ...attack('swaps the model, recognises half of the audits by their prompts', { swapShare: 1, recognises: 0.5 }),
    mustBeFound: false,
  },
  {
    ...attack('swaps the model, recognises 90% of the audits by customer and hour', { swapShare: 1, recognises: 0.9 }),
    mustBeFound: false,
  },
  {
    ...attack('swaps the model, recognises every audit', { swapShare: 1, recognises: 1 }),
    mustBeFound: false,
  },
  {
    ...attack('three of six collude and swap; reference', { swapShare: 1, colludes: true }, { attackers: 3 }),
    mustBeFound: false,
  },
  {
    ...attack(
      'three of six collude and swap; no reference',
      { swapShare: 1, colludes: true },
      { attackers: 3, reference: false },
    ),
    mustBeFound: false,
  },
  {
    ...attack('three of six report 10% too much together; local server', { lie: 1.1 }, { attackers: 3 }),
    mustBeFound: false,
  },
  {
    ...attack('a customer frames an honest hoster', {}, { attackers: 0, framing: 0.2 }),
    mustBeFound: false,
  },
]
