import type { DatabaseServer } from './database-server.ts'
import type { SimDisk } from './disk.ts'
import type { Volume } from './gateway.ts'
import type { LinkState } from './link.ts'
import type { Oracle } from './oracle.ts'
import type { MachineClock, Process } from './process.ts'
import type { World } from './world.ts'

export interface FaultyMachine {
  readonly clock: MachineClock
  readonly link: LinkState
  readonly volumes: Volume[]
  /** The processes that currently run on the machine. */
  processes(): readonly Process[]
  /** Shuts one of them down gracefully, as a deployment does. */
  shutDownOne(): void
}

export interface FaultDeps {
  readonly world: World
  readonly machines: readonly FaultyMachine[]
  readonly server: DatabaseServer
  readonly oracle: Oracle
  readonly fsync: boolean
  readonly stepsDatabaseClock: boolean
  readonly losesTransactions: boolean
}

/** The faults of a run, one function each. A fault picks its victim when it is called. */
export function createFaults({
  world,
  machines,
  server,
  oracle,
  fsync,
  stepsDatabaseClock,
  losesTransactions,
}: FaultDeps): (() => void)[] {
  const { random } = world
  const someMachine = () => random.pick(machines)
  const withProcess = (harm: (process: Process) => void) => () => {
    const processes = machines.flatMap(machine => machine.processes())
    if (processes.length > 0) harm(random.pick(processes))
  }

  const faults = [
    withProcess(process => process.kill()),
    withProcess(process => process.killAfter(Math.round(random.skewed(1, 300)))),
    () => someDisk().tearNextAppend(),
    () => flipBit(),
    () => someDisk().fill(random.skewed(200, 60_000)),
    () => losePower(someMachine()),
    () => loseDisk(someMachine()),
    () => copyVolume(random.pick(someMachine().volumes), someMachine()),
    withProcess(process => process.pause(random.skewed(100, 150_000))),
    withProcess(process => process.pause(random.between(70_000, 150_000))),
    () => cut(someMachine().link),
    () => cut(someMachine().link),
    () => server.stop(random.skewed(200, 90_000)),
    () => server.hang(random.skewed(200, 50_000)),
    // Full disk, out of memory, too many connections.
    () => server.exhaust(random.pick(['53100', '53200', '53300']), random.skewed(200, 60_000)),
    () => lockBalance(),
    () => {
      oracle.machineClockStepped()
      stepClock(someMachine().clock, 'a machine')
    },
    () => someMachine().shutDownOne(),
    () => someMachine().shutDownOne(),
  ]
  if (stepsDatabaseClock) {
    faults.push(() => {
      oracle.clockStepped()
      stepClock(server.clock, 'the database')
    })
  }
  if (losesTransactions) faults.push(failOver, failOver, failOverToSlow, failOverToSlow)
  return faults

  function failOver(): void {
    server.failOver(random.skewed(20, 8_000), random.skewed(200, 30_000))
  }

  /** The standby takes heartbeats and holds at once, and settles nothing for longer than an answer waits. */
  function failOverToSlow(): void {
    const downMs = random.skewed(200, 5_000)
    server.failOver(random.between(2_000, 8_000), downMs)
    server.lockUsage(downMs + random.between(11_000, 40_000))
  }

  function someDisk(): SimDisk {
    return random.pick(someMachine().volumes).disk
  }

  function lockBalance(): void {
    const customers = [...server.model.tables.balances.keys()]
    if (customers.length > 0) server.lockBalance(random.pick(customers), random.skewed(200, 30_000))
  }

  /** The process dies too, because only the next one reads the file. */
  function flipBit(): void {
    const volume = random.pick(someMachine().volumes)
    if (!volume.disk.flipBit()) return
    volume.mayBeDamaged = true
    oracle.bitFlipped(volume)
    volume.claimedBy?.kill()
  }

  /** Without fsync, records of delivered answers may be lost. */
  function losePower(machine: FaultyMachine): void {
    for (const process of machine.processes()) process.kill()
    for (const volume of machine.volumes) {
      volume.disk.losePower()
      volume.mayBeDamaged = true
      // The machine has another boot id.
      volume.identity += ' again'
      if (!fsync) oracle.lost(volume)
    }
  }

  function loseDisk(machine: FaultyMachine): void {
    for (const process of machine.processes()) process.kill()
    for (const volume of machine.volumes) {
      volume.disk.replace()
      volume.nodes = []
      volume.sizes = undefined
      oracle.lost(volume)
    }
  }

  /** An operator copies the data directory of a gateway to another machine, and starts a gateway there too. */
  function copyVolume(volume: Volume, machine: FaultyMachine): void {
    const name = `copy of ${volume.name} at ${world.nowMs.toFixed(3)}`
    world.note('world', 'makes a', name)
    machine.volumes.push({ ...volume, name, identity: name, disk: volume.disk.copy(name), claimedBy: undefined })
    if (random.chance(0.5)) machine.shutDownOne()
  }

  function cut(link: LinkState): void {
    const [requests, answers] = random.pick([
      [true, true],
      [true, false],
      [false, true],
    ])
    world.note('network', 'cut', requests!, answers!)
    link.requestsCut ||= requests!
    link.answersCut ||= answers!
    world.at(world.nowMs + random.skewed(500, 100_000), () => {
      world.note('network', 'restored')
      link.requestsCut = false
      link.answersCut = false
    })
  }

  function stepClock(clock: { epochMs: number }, owner: string): void {
    const stepMs = random.pick([3_600_000, -3_600_000, 120_000, random.between(-90_000, 90_000)])
    world.note('world', 'steps the clock of', owner, stepMs)
    clock.epochMs += stepMs
  }
}
