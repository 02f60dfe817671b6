import { parseArgs } from 'node:util'
import { behaviours } from './hostile/behaviours.ts'
import { type Bystander, hostileReport, type Row } from './hostile/report.ts'
import { HostileStage } from './hostile/stage.ts'
import { prepareMachine } from './machine.ts'
import { printProgress } from './print-progress.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:hostile`: measures a bystander, a customer with small requests, while others are hostile. See bench/README.md. */
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    seconds: { type: 'string', default: '4' },
    profile: { type: 'boolean', default: false },
  },
})
const seconds = Number(values.seconds)
const wanted = values.only.split(',')
const chosen = behaviours.filter(({ party, name }) => wanted.some(part => `${party} ${name}`.includes(part)))
if (!(seconds >= 1) || chosen.length === 0) {
  printProgress('--seconds must be at least 1, and --only parts of the names of behaviours with commas between')
  process.exit(2)
}

/** One measurement without a hostile party precedes this many behaviours. */
const BEHAVIOURS_PER_QUIET_ROUND = 10

const { profile } = values
const dir = makeBenchmarkDir()
await runBenchmark(
  dir,
  async () => {
    const { cores, machine } = prepareMachine()
    const stage = await HostileStage.open({ dir, cores, seconds, profile })
    await stage.measure()
    const rssBeforeMb = stage.rssMb
    let quiet: Bystander | undefined
    const rows: Row[] = []
    for (const [index, behaviour] of chosen.entries()) {
      if (quiet === undefined || index % BEHAVIOURS_PER_QUIET_ROUND === 0) quiet = await stage.measure()
      const row = { behaviour, quiet, ...(await stage.play(behaviour)) }
      rows.push(row)
      printProgress(`${index + 1}/${chosen.length} ${progressOf(row)}`)
    }
    await stage.measure()
    const rssAfterMb = stage.rssMb
    await stage.close()
    const report = hostileReport({ machine, rows, conditions: stage.conditions, rssBeforeMb, rssAfterMb })
    process.stdout.write(report)
    if (values.only === '' && seconds >= 4) printProgress(`wrote ${writeReport('hostile', report)}`)
  },
  { profile },
)

function progressOf({ behaviour, attacked, quiet, hasCrashed }: Row): string {
  const { p99Ms, freshP99Ms, stallMs, coreShare, rssMaxMb, failed } = attacked
  const parts = [
    `${behaviour.party} ${behaviour.name}: p99 ${p99Ms.toFixed(1)} ms (${quiet.p99Ms.toFixed(1)})`,
    `new ${freshP99Ms.toFixed(1)} ms`,
    `stall ${stallMs?.toFixed(0) ?? '-'} ms`,
    `cores ${coreShare?.toFixed(2) ?? '-'}`,
    `RSS ${rssMaxMb.toFixed(0)} MB`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(hasCrashed ? ['THE GATEWAY ENDED'] : []),
  ]
  return parts.join(', ')
}
