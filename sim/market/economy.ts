import type { ServiceTier } from '../../src/base/domain/chat-job.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { createHealth } from '../../src/market/supply/breakers/health.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { createRandom } from '../random.ts'
import { type Attack, attacks } from './behaviour.ts'
import { runMarket } from './market.ts'
import { offerOf, orderedOffers } from './regret.ts'

/** What a fraud brings, compared with an honest hoster on the same machine. USD a day. */
export interface Fraud {
  readonly name: string
  readonly firstDay: number
  /** The mean of days 2 to 60, with what is lost when the fraud ends in them. */
  readonly laterDays: number
  /** What decides it. */
  readonly because: string
}

// A market of one model. All money is in USD; the figures are assumptions, the limits are those of the default settings.
const REQUESTS_A_DAY = 3_000
const HONEST_HOSTERS = 5
/** What a customer pays for a request at the usual price. */
const REQUEST_USD = 0.0005
/** Of the usual price: the electricity and hardware of the model that is sold, and of a cheaper one. */
const COST_PART = 0.4
const CHEAP_COST_PART = 0.1
/** A cloud sells the model at so many times the usual price of hosters. */
const CLOUD_FACTOR = 1.3
const DAYS = 60
/** Cards, mailboxes, addresses and browsers that nothing relates, for one account. */
const ACCOUNT_USD = 0.1
const tiers: readonly (readonly [tier: ServiceTier, part: number])[] = [
  ['balanced', 0.7],
  ['cheapest', 0.2],
  ['fastest', 0.1],
]
const config = loadConfig({ env: {}, cwd: '/' })
const hosterPart = config.platform.hosterShareBps / 10_000

/** Returns the part of the requests for which route() tries the last of the offers first. */
export function shareOf(offers: readonly Offer[]): number {
  const random = createRandom(1)
  const health = createHealth({ clock: { epochMs: () => 0, monotonicMs: () => 0 }, random: random.fork().next })
  for (const { offerId } of offers)
    health.recordSuccess(offerId, { firstTokenMs: 200, totalMs: 1_000, outputTokens: 300 }, 0)
  const own = offers.at(-1)!
  return tiers.reduce((share, [tier, part]) => {
    let first = 0
    for (let at = 0; at < DRAWS; at++) if (orderedOffers(offers, { tier, health, random })[0] === own) first++
    return share + (part * first) / DRAWS
  }, 0)
}

const DRAWS = 1_000
const PICOS = 200_000
const hosterOffer = (at: number, factor: number) => offerOf(at, Math.round(PICOS * factor))
function cloudOffer(): Offer {
  const offer = hosterOffer(99, CLOUD_FACTOR)
  return { ...offer, endpoint: { ...offer.endpoint, kind: 'cloud', hosterId: null } } as Offer
}

/** What a day brings a hoster at a price, with a cost for each request. */
function dayUsd(share: number, factor: number, costPart: number): number {
  return share * REQUESTS_A_DAY * REQUEST_USD * (factor * hosterPart - costPart)
}

const others = Array.from({ length: HONEST_HOSTERS }, (_, at) => hosterOffer(at, 1))
const honestShare = shareOf([cloudOffer(), ...others, hosterOffer(50, 1)])
const honestUsd = dayUsd(honestShare, 1, COST_PART)

/** Computes what frauds with prices, standing and credit bring at the default settings. */
export function measureFrauds(): readonly Fraud[] {
  return [takesOver(), ...asksMore(), washes(), ...cashes()]
}

/** A hoster with a model that otherwise a cloud sells, at forty times its price. */
function takesOver(): Fraud {
  const share = shareOf([cloudOffer(), hosterOffer(50, 40 * CLOUD_FACTOR)])
  const honest = dayUsd(shareOf([cloudOffer(), hosterOffer(50, 1)]), 1, COST_PART)
  const day = dayUsd(share, 40 * CLOUD_FACTOR, COST_PART) - honest
  return {
    ...{ name: 'takes over a model of a cloud at 40 times its price', firstDay: day, laterDays: day },
    because: `the promise about prices: ${percent(share)} of the requests`,
  }
}

/** Higher prices among hosters. */
function asksMore(): readonly Fraud[] {
  return [1.25, 1.5, 2, 3, 40].map(factor => {
    const share = shareOf([cloudOffer(), ...others, hosterOffer(50, factor)])
    const day = dayUsd(share, factor, COST_PART) - honestUsd
    return {
      ...{ name: `flips its price to ${factor} times the usual one, with its standing`, firstDay: day, laterDays: day },
      because: `the promise about prices: ${percent(share)} of the requests instead of ${percent(honestShare)}`,
    }
  })
}

/**
 * Accounts of its own, which nothing relates to it, pay for the answers that prove its model. An honest newcomer waits for customers:
 * newcomers get 1% of the requests. Both are compared with a reference first, which takes a day.
 */
function washes(): Fraud {
  const { successes, payers } = config.routing.newcomers
  const paidUsd = payers * Number(config.payments.topUpMinNanos) * 1e-9
  const cardUsd = payers * 0.3 + paidUsd * 0.029
  const costUsd = paidUsd * (1 - hosterPart) + cardUsd + payers * ACCOUNT_USD + paidUsd * COST_PART
  const newcomerShare = 0.01
  const waitDays = Math.min(DAYS, successes / (newcomerShare * REQUESTS_A_DAY))
  const gainUsd = Math.max(0, waitDays - 1) * (honestUsd - dayUsd(newcomerShare, 1, COST_PART))
  return {
    name: `washes its standing with ${payers} paying accounts of its own`,
    ...{ firstDay: -costUsd, laterDays: (gainUsd - costUsd) / DAYS },
    because: `fees and cards cost ${usd(costUsd)}, and ${waitDays.toFixed(1)} days of a newcomer are saved once, worth ${usd(gainUsd)}`,
  }
}

/** Signup credit that is spent at the own hoster. */
function cashes(): readonly Fraud[] {
  const { hosterDayNanos, holdDays, needsPayers } = config.payouts.promotion
  const creditUsd = Number(config.signup.creditNanos) * 1e-9
  const budgetUsd = Number(hosterDayNanos) * 1e-9
  const accountsADay = budgetUsd / hosterPart / creditUsd
  const costUsd = accountsADay * ACCOUNT_USD + (budgetUsd / hosterPart) * CHEAP_COST_PART
  const paidDays = DAYS - holdDays
  return [
    {
      name: 'cashes signup credit of accounts that share a network, a browser, a card or a member with it',
      ...{ firstDay: -costUsd, laterDays: -costUsd },
      because: 'an operator decides about them and sees the evidence; nothing is paid',
    },
    {
      name: 'cashes signup credit of accounts that nothing relates to it',
      ...{ firstDay: -costUsd, laterDays: needsPayers ? -costUsd : (paidDays * budgetUsd) / DAYS - costUsd },
      because: needsPayers
        ? 'promotion pays at most the fees on other requests to the hoster, and it has none'
        : `the budget of ${usd(budgetUsd)} a day for each hoster, after ${holdDays} days`,
    },
    {
      name: 'cashes signup credit, and pays for requests of its own so that promotion pays',
      firstDay: -costUsd - budgetUsd,
      // Its own money comes back less the fee, which is what promotion then pays, after the hold.
      laterDays: (paidDays * budgetUsd) / DAYS - budgetUsd - costUsd,
      because: `each dollar of promotion takes a dollar of fees, and is paid after ${holdDays} days`,
    },
  ]
}

/**
 * Computes what cheats with answers and reports bring. The time until they are found is that of so many simulated markets; what is held
 * then is frozen.
 */
export function measureCheats(markets: number): readonly Fraud[] {
  return cheatNames.map(([name, gainPart]) => {
    const attack = attacks.find(each => each.name === name)!
    const days = Array.from({ length: markets }, (_, at) => daysToQuarantine(at + 1, attack))
    const gainUsd = honestShare * REQUESTS_A_DAY * REQUEST_USD * gainPart
    const later = mean(days.map(found => cheatUsd(found, gainUsd)))
    const found = days.filter(day => day < DAYS)
    return {
      ...{ name, firstDay: mean(days.map(day => (day < 1 ? -honestUsd : gainUsd))), laterDays: later },
      because: `found in ${percent(found.length / days.length)} of the markets, after ${found.length === 0 ? '-' : mean(found).toFixed(1)} days; earnings of ${config.payouts.holdDays} days are frozen`,
    }
  })
}

/** What each cheat saves or earns more, as a part of the price. */
const cheatNames: readonly (readonly [name: string, gainPart: number])[] = [
  ['reports 3% too much', 0.03 * hosterPart],
  ['reports 10% too much', 0.1 * hosterPart],
  ['swaps the model', COST_PART - CHEAP_COST_PART],
  ['swaps the model once it is trusted', COST_PART - CHEAP_COST_PART],
  ['swaps 30% of the requests', 0.3 * (COST_PART - CHEAP_COST_PART)],
  ['swaps 10% of the requests', 0.1 * (COST_PART - CHEAP_COST_PART)],
  ['swaps all but requests at temperature 0', COST_PART - CHEAP_COST_PART],
  ['swaps the model, recognises every request of the gateway', COST_PART - CHEAP_COST_PART],
  ['three of six collude and swap; reference', COST_PART - CHEAP_COST_PART],
  ['whitewashing: swaps the model, registers again', COST_PART - CHEAP_COST_PART],
]

/** The mean extra profit of the days after the first: the gain until the fraud ends, then neither the held earnings nor any others. */
function cheatUsd(found: number, gainUsd: number): number {
  if (found >= DAYS) return gainUsd
  const frozenDays = Math.min(found, config.payouts.holdDays)
  const frozenUsd = frozenDays * (honestUsd + gainUsd)
  return (found * gainUsd - frozenUsd - (DAYS - found) * honestUsd) / DAYS
}

/** Days until the first attacker of a market is quarantined; DAYS if it is not within the ten days of the market. */
function daysToQuarantine(seed: number, attack: Attack): number {
  const attacker = runMarket(seed, attack).find(({ isHonest }) => !isHonest)!
  return attacker.quarantinedAfterMs === null ? DAYS : attacker.quarantinedAfterMs / 86_400_000
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

const percent = (part: number) => `${(part * 100).toFixed(0)}%`
const usd = (value: number) => `${value.toFixed(2)} USD`
