// Simulates markets with honest and dishonest hosters: `npm run sim:market -- --markets 50 --from 1`. Each attack of behaviour.ts
// runs in that many markets. With 1,000 markets in all, it writes bench/results/market.md.
import { parseArgs } from 'node:util'
import { readMachine, reportHead } from '../../bench/machine.ts'
import { markdownPage, markdownTable } from '../../bench/markdown.ts'
import { writeReport } from '../../bench/write-report.ts'
import { measureCheats, measureFrauds } from './economy.ts'
import { measureHerd } from './herd.ts'
import { type AttackResult, AUDITS_MAX, proveMarket, type Whitewashing } from './prove-market.ts'
import { measureRecognition } from './recognise.ts'
import { measureRegret, type Regret } from './regret.ts'

const { values } = parseArgs({
  options: { markets: { type: 'string', default: '20' }, from: { type: 'string', default: '1' } },
})
const markets = Number(values.markets)
const from = Number(values.from)

/** A run of fewer markets in all writes no report. */
const REPORT_MARKETS_MIN = 1_000
const REGRET_MARKETS = 100
const CHEAT_MARKETS_MAX = 12
/** Logs of a month that a classifier judges. */
const LOGS = 12
/** The parts of the customers that share their requests. */
const SHARING = [1 / 3, 1 / 10]

const machine = readMachine(null)
const startedMs = performance.now()
const results = await proveMarket(from, markets, result => console.log(line(result).join('  ')))
const frauds = [...measureFrauds(), ...measureCheats(Math.min(markets, CHEAT_MARKETS_MAX))]
const regrets = (['cheapest', 'balanced', 'fastest'] as const).map(tier => meanRegret(tier))
const herds = (['balanced', 'fastest'] as const).map(tier => measureHerd(from, tier))
const recognitions: { sharing: number; aucs: number[]; part: number }[] = []
for (const sharing of SHARING) {
  const logs = await Promise.all(Array.from({ length: LOGS }, (_, at) => measureRecognition(from + at, sharing)))
  const part = logs.reduce((sum, { audits, requests }) => sum + audits / requests, 0) / LOGS
  recognitions.push({ sharing, aucs: logs.map(({ auc }) => auc).sort((a, b) => a - b), part })
}
for (const { sharing, aucs } of recognitions)
  console.log(`audits recognised where ${percent(sharing)} of the customers share: AUC ${mean(aucs).toFixed(2)}`)
for (const { name, firstDay, laterDays } of frauds)
  console.log(`${name}: ${firstDay.toFixed(3)} USD on the first day, then ${laterDays.toFixed(3)} a day`)
for (const { tier, regret, regretOfAll } of regrets)
  console.log(`${tier}: regret ${percent(regret)}, of all ${percent(regretOfAll)}`)

const head = [
  'attack',
  `found within ${AUDITS_MAX} audits`,
  'found in 10 days',
  'audits, median',
  'attackers above 0.8 at the end',
  'paid, relative to honest reports',
  'honest above 0.8 at the end',
  'false alarms',
]
const misses = results.filter(({ attack, foundEarly, attackers }) => attack.claim === 'found' && foundEarly < attackers)
const falseMarkets = results.reduce((sum, { marketsWithFalseAlarm }) => sum + marketsWithFalseAlarm, 0)
const allMarkets = results.length * markets
const verdict = `${percent(falseMarkets / allMarkets)} of ${allMarkets} markets had a false alarm; attacks that must be found and were not always found within ${AUDITS_MAX} audits: ${misses.length}`
console.log(`${verdict}; ${Math.round((performance.now() - startedMs) / 1000)} s`)
process.exitCode = falseMarkets / allMarkets <= 0.01 ? 0 : 1

if (allMarkets >= REPORT_MARKETS_MIN) {
  const page = markdownPage([
    reportHead('Market', `npm run sim:market -- --markets ${markets} --from ${from}`, machine, [
      `- result: ${verdict}`,
      '- the model, and what the figures mean: [docs/trust.md](../../docs/trust.md#the-simulator)',
    ]),
    markdownTable(head, results.map(line)),
    'Registrations of the same operator after a quarantine, compared with the first:',
    markdownTable(
      [
        'attack',
        'new names in 10 days',
        'new names found',
        'audits, median',
        'highest score of a new name',
        'USD an hour, first name',
        'USD an hour, new names',
      ],
      results.flatMap(({ attack, whitewashing }) =>
        whitewashing ? [whitewashingLine(attack.name, whitewashing)] : [],
      ),
    ),
    `How well a classifier that was trained on other gateways tells the gateway's own requests in the log of a month (${LOGS} logs) from those of customers. 0.5: by chance. Shadow comparisons are not in it: there is nothing to recognise.`,
    markdownTable(
      ['customers that share requests', 'audits, of all requests', 'AUC, mean', 'lowest', 'highest'],
      recognitions.map(({ sharing, aucs, part }) => [
        percent(sharing),
        percent(part),
        mean(aucs).toFixed(2),
        aucs[0]!.toFixed(2),
        aucs.at(-1)!.toFixed(2),
      ]),
    ),
    'What frauds bring a day, compared with an honest hoster on the same machine, at the default settings ([the assumptions](../../sim/market/economy.ts)). Negative: honest earnings are higher.',
    markdownTable(
      ['fraud', 'USD, first day', 'USD, each later day', 'why'],
      frauds.map(({ name, firstDay, laterDays, because }) => [
        name,
        firstDay.toFixed(3),
        laterDays.toFixed(3),
        because,
      ]),
    ),
    'Regret of route() against an oracle that knows prices, latencies and failures in advance, among the servers that the promise about prices allows and among all:',
    markdownTable(
      ['tier', 'failed', 'price, relative', 'latency, relative', 'regret', 'regret of all'],
      regrets.map(({ tier, failed, requests, price, latency, regret, regretOfAll }) => [
        tier,
        percent(failed / requests),
        price.toFixed(2),
        latency.toFixed(2),
        percent(regret),
        percent(regretOfAll),
      ]),
    ),
    'Herds: ten nodes with servers of the same price, which become slower beyond eight requests at once, at 60% of what all can do. Compared with sending each request to the server that is the fastest at that moment:',
    markdownTable(
      ['tier', 'mean', 'p99'],
      herds.map(({ tier, mean, p99 }) => [tier, mean.toFixed(2), p99.toFixed(2)]),
    ),
  ])
  console.log(`wrote ${writeReport('market', page)}`)
}

function line(result: AttackResult): string[] {
  const { attack, attackers, foundEarly, found, medianAudits, attackersAbove, paid } = result
  const { honest, honestAbove, falseAlarms } = result
  const part = (count: number, of: number) => (of === 0 ? '-' : percent(count / of))
  return [
    attack.name,
    part(foundEarly, attackers),
    part(found, attackers),
    medianAudits === null ? '-' : `${medianAudits}`,
    part(attackersAbove, attackers),
    attackers === 0 ? '-' : paid.toFixed(3),
    part(honestAbove, honest),
    `${falseAlarms}`,
  ]
}

function whitewashingLine(name: string, again: Whitewashing): string[] {
  return [
    name,
    again.registrations.toFixed(1),
    percent(again.found),
    again.medianAudits === null ? '-' : `${again.medianAudits}`,
    again.highestScore.toFixed(2),
    (again.firstPerHour / 1e9).toFixed(6),
    (again.laterPerHour / 1e9).toFixed(6),
  ]
}

function meanRegret(tier: Regret['tier']): Regret {
  const all = Array.from({ length: REGRET_MARKETS }, (_, at) => measureRegret(from + at, tier))
  const meanOf = (of: (regret: Regret) => number) => mean(all.map(of))
  return {
    tier,
    requests: meanOf(({ requests }) => requests),
    failed: meanOf(({ failed }) => failed),
    price: meanOf(({ price }) => price),
    latency: meanOf(({ latency }) => latency),
    regret: meanOf(({ regret }) => regret),
    regretOfAll: meanOf(({ regretOfAll }) => regretOfAll),
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function percent(part: number): string {
  return `${(part * 100).toFixed(part > 0 && part < 0.01 ? 2 : 1)}%`
}
