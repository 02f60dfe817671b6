import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { predictQuality } from '../src/base/domain/auto-table.ts'
import { readFeatures } from '../src/request/route/auto/read-features.ts'
import { parseChatRequest } from '../src/wire/dialects/chat/chat-dialect.ts'
import { areaOf, curveOf, type Judged, type Point, pointOf } from './auto/curve.ts'
import { makeRows, toCsv } from './auto/make-rows.ts'
import { type RouterRow, readRows } from './auto/read-rows.ts'
import { tableFile, train } from './auto/train.ts'
import { readMachine, reportHead } from './machine.ts'
import { markdownPage, markdownTable } from './markdown.ts'
import { writeReport } from './write-report.ts'

// Trains the table of `auto` and measures what it saves. See bench/auto/README.md.

const { values } = parseArgs({
  options: {
    data: { type: 'string', multiple: true },
    write: { type: 'string' },
    make: { type: 'string' },
    prices: { type: 'string' },
  },
})
const MADE_ROWS = 4_000
/** Every fourth row is kept for the measurement. */
const TESTED = 4

if (values.make !== undefined) {
  writeFileSync(values.make, toCsv(makeRows(MADE_ROWS, 1)))
  process.stdout.write(`Wrote ${values.make}: ${MADE_ROWS} made-up rows in RouterBench's form.\n`)
} else measure(values.data === undefined ? makeRows(MADE_ROWS, 1) : values.data.flatMap(readRows))

function measure(all: readonly RouterRow[]): void {
  const rows = all.map(row => withCosts(row))
  const features = rows.map(({ prompt }) => featuresOf(prompt).values)
  const isTested = (index: number) => index % TESTED === 0
  const table = train(
    rows.flatMap(({ quality }, index) => (isTested(index) ? [] : [{ features: features[index]!, quality }])),
  )
  if (values.write !== undefined) writeFileSync(values.write, tableFile(table))

  const tested = rows.flatMap((row, index): Judged[] => {
    if (!isTested(index)) return []
    const predicted = Object.keys(row.quality).map(model => [
      model,
      predictQuality(table.models[model]!, features[index]!),
    ])
    return [{ ...row, predicted: Object.fromEntries(predicted) }]
  })
  const models = Object.keys(table.models).filter(model => tested.every(({ quality }) => model in quality))
  const single = models.map(model => ({ model, point: pointOf(tested, () => model) }))
  const cheapest = single.reduce((a, b) => (b.point.costUsd < a.point.costUsd ? b : a))
  const best = single.reduce((a, b) => (b.point.quality > a.point.quality ? b : a))
  const area = (points: readonly Point[]) => areaOf(points, cheapest.point.costUsd, best.point.costUsd)
  const curve = curveOf(tested, ({ predicted }, model) => predicted[model]!)
  const oracle = curveOf(tested, ({ quality }, model) => quality[model]!)
  // A random mix of the cheapest and the best model: the line between them.
  const random = [cheapest.point, best.point]

  const text = markdownPage([
    reportHead(
      'The choice of `auto`',
      `npm run bench:auto${values.data === undefined ? '' : ' -- --data FILE'}`,
      readMachine(null),
      [
        `- data: ${values.data === undefined ? `${all.length} made-up rows (bench/auto/make-rows.ts), so the figures say nothing about real models` : `${all.length} rows`}, a quarter of them measured, the others trained with`,
      ],
    ),
    '## Area\n\nThe mean quality over all costs between the cheapest and the best single model. A random choice mixes these two.',
    markdownTable(
      ['', 'mean quality', 'of the way from random to the best possible'],
      [
        ['random', area(random).toFixed(4), '0%'],
        ['`auto`', area(curve).toFixed(4), percent((area(curve) - area(random)) / (area(oracle) - area(random)))],
        ['best possible, knowing each answer', area(oracle).toFixed(4), '100%'],
      ],
    ),
    '## Curve',
    markdownTable(
      ['', 'USD for 1,000 requests', 'quality'],
      [
        ...single.map(({ model, point }) =>
          pointRow(
            `always ${model}${model === cheapest.model ? ' (cheapest)' : model === best.model ? ' (best)' : ''}`,
            point,
          ),
        ),
        ...curve.flatMap((point, index) => (index % 6 === 0 ? [pointRow('`auto`', point)] : [])),
      ],
    ),
    `To reach 95% of the quality of ${best.model}, \`auto\` pays ${percent(costFor(curve, best.point.quality * 0.95) / best.point.costUsd)} of its cost.`,
    '## Time per decision\n\nReading the features and predicting all models. Best of 15 rounds.',
    markdownTable(['prompt', 'µs'], timeRows(table.models)),
  ])
  process.stdout.write(text)
  if (values.data === undefined) process.stderr.write(`\nWrote ${writeReport('auto', text)}\n`)
}

/**
 * RouteLLM's data has no costs. `--prices model=usd,...` gives the USD of a million tokens of each model. An answer that is not in the
 * data counts as 256 tokens.
 */
function withCosts(row: RouterRow): RouterRow {
  if (Object.keys(row.costUsd).length > 0) return row
  const prices = Object.fromEntries((values.prices ?? '').split(',').map(pair => pair.split('=')))
  const tokensOf = (model: string) => row.prompt.length / 4 + (row.answerLength[model] ?? 1_024) / 4
  const costUsd = Object.keys(row.quality).map(model => {
    const usd = Number(prices[model])
    if (!(usd >= 0)) throw new Error(`The data has no costs. Give --prices with ${model}=USD per million tokens.`)
    return [model, (usd * tokensOf(model)) / 1e6]
  })
  return { ...row, costUsd: Object.fromEntries(costUsd) }
}

function jobOf(content: string) {
  return parseChatRequest(Buffer.from(JSON.stringify({ model: 'auto', messages: [{ role: 'user', content }] })))
}

function featuresOf(prompt: string) {
  return readFeatures(jobOf(prompt))
}

function costFor(points: readonly Point[], quality: number): number {
  return Math.min(...points.filter(point => point.quality >= quality).map(({ costUsd }) => costUsd))
}

function timeRows(models: Readonly<Record<string, { bias: number; weights: readonly number[] }>>): string[][] {
  const text = 'Fix the function sum(a, b) { return a - b; } and explain why 17 + 4 = 21. 请用中文回答。 '
  return [100, 10_000, 1_000_000, 16_000_000].map(length => {
    const job = jobOf(text.repeat(Math.ceil(length / text.length)).slice(0, length))
    const rounds = Array.from({ length: 15 }, () => {
      const startedMs = performance.now()
      for (let n = 0; n < 1_000; n++) {
        const { values } = readFeatures(job)
        for (const weights of Object.values(models)) predictQuality(weights, values)
      }
      return performance.now() - startedMs
    })
    return [`${length.toLocaleString('en')} characters`, Math.min(...rounds).toFixed(1)]
  })
}

function pointRow(name: string, { costUsd, quality }: Point): string[] {
  return [name, (costUsd * 1_000).toFixed(4), quality.toFixed(4)]
}

function percent(part: number): string {
  return `${(part * 100).toFixed(0)}%`
}
