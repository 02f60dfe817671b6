import type { Customer } from './customer.ts'
import { createDatabaseServer, type DatabaseServer } from './database-server.ts'
import { createSimDisk } from './disk.ts'
import { createFaults } from './faults.ts'
import { type Gateway, startGateway, type Volume } from './gateway.ts'
import { idOf } from './id-of.ts'
import { createLink, createLinkState, type LinkState } from './link.ts'
import { createOperator } from './operator.ts'
import { createOracle, type Oracle } from './oracle.ts'
import { MODELS, type Plan, planOf, type RequestPlan, type SlotPlan } from './plan.ts'
import { offerIdOf, planPricing } from './pricing.ts'
import { createProcess, type MachineClock, type Process } from './process.ts'
import type { RequestRecord } from './request-record.ts'
import { createServeRequest } from './serve-request.ts'
import { createUpstreams } from './upstreams.ts'
import { createWorld, type Failure, type World } from './world.ts'

export interface Run {
  readonly seed: number
  readonly failure: Failure | undefined
  /** Hash of all events: two runs with the same fingerprint did the same. */
  readonly fingerprint: string
  readonly events: number
  readonly counts: RunCounts
}

export interface RunCounts {
  readonly requests: number
  readonly answered: number
  readonly refused: number
  readonly failed: number
  readonly voided: number
  readonly cut: number
  readonly inMemory: number
  readonly late: number
  readonly writtenOff: number
  readonly charged: number
  readonly keyed: number
  readonly replayed: number
  readonly superseded: number
  readonly rolledBack: number
  readonly lostCharges: number
  readonly refunded: number
  readonly ejections: number
}

/** Runs one seed: load with faults, healing, quiet, and a last request to each node. `trace` receives a line for each event. */
export async function simulate(seed: number, trace?: (line: string) => void): Promise<Run> {
  const world = createWorld(seed, trace)
  const plan = planOf(world.random.fork())
  const run = createRun(world, plan)
  run.begin()
  await world.run(plan.loadMs)
  run.heal()
  await waitFor(world, run.isQuiet, LIVENESS_MS, () => world.fail('all_work_finishes', run.whatIsLeft()))
  run.probe()
  await waitFor(world, run.isProbed, PROBE_MS, () => world.fail('healed_nodes_serve', run.whatIsLeft()))
  run.restoreOffers()
  await waitFor(world, run.isProbed, RESTORE_MS, () => world.fail('healed_offers_are_restored', run.whatIsLeft()))
  run.repeatRequests()
  await waitFor(world, run.isProbed, REPEAT_MS, () => world.fail('keys_are_released', run.whatIsLeft()))
  await waitFor(world, run.isQuiet, LIVENESS_MS, () => world.fail('all_work_finishes', run.whatIsLeft()))
  if (world.failure === undefined) run.checkEnd()
  return {
    seed,
    failure: world.failure,
    fingerprint: world.fingerprint,
    events: world.events,
    counts: run.counts(),
  }
}

/** All leases must have ended after this time. */
const LIVENESS_MS = 15 * 60_000
const PROBE_MS = 15_000
/** Twice the longest rest of an offer. */
const RESTORE_MS = 900_000
/** The product checks a claim of unknown outcome again after a minute, and an answer takes up to another minute. */
const REPEAT_MS = 150_000
const CHECK_EVERY_MS = 2_000
const ENDPOINTS = [0, 1, 2, 3, 4]
/** Three successes end the trial, but a request may fail for other reasons. */
const RESTORE_ATTEMPTS = 12

async function waitFor(world: World, isDone: () => boolean, withinMs: number, onOverdue: () => void): Promise<void> {
  const deadlineMs = world.nowMs + withinMs
  while (world.failure === undefined && !isDone()) {
    if (world.nowMs >= deadlineMs) onOverdue()
    await world.run(world.nowMs + CHECK_EVERY_MS)
  }
}

interface Machine {
  readonly clock: MachineClock
  readonly link: LinkState
  readonly volumes: Volume[]
}

interface Slot {
  readonly plan: SlotPlan
  readonly index: number
  readonly machine: Machine
  starts: number
  process: Process | undefined
  /** Set while the slot takes requests. */
  gateway: Gateway | undefined
  inFlight: number
  /** Runs when the last request of a draining gateway ends. */
  whenIdle: (() => void) | undefined
  /** The slot never starts a process again. */
  isGone: boolean
}

function createRun(world: World, plan: Plan) {
  const { random } = world
  const { faults } = plan
  let healing = false
  let ids = 0
  let probesLeft = 0
  const newId = (kind: 'node' | 'lease') => idOf(kind, ids++)
  const oracle: Oracle = createOracle(world, () => server)
  const server: DatabaseServer = createDatabaseServer(world, plan.epochMs, {
    onCommit: customerIds => oracle.onCommit(customerIds),
    onReclaim: lease => oracle.onReclaim(lease),
    onViolation: constraint => world.fail('no_constraint_is_violated', constraint),
    onRollBack: (rollBack, toMs) => oracle.onRollBack(rollBack, toMs),
  })
  const machines: Machine[] = Array.from({ length: plan.machines }, (_, index) => ({
    clock: {
      epochMs: plan.epochMs + random.between(-2_000, 2_000),
      driftPpm: plan.slots.find(slot => slot.machine === index)!.driftPpm,
    },
    link: { ...createLinkState(), ...faults },
    volumes: [],
  }))
  const slots: Slot[] = plan.slots.map((slotPlan, index) => {
    const machine = machines[slotPlan.machine]!
    const disk = createSimDisk(world, `disk ${index}`, plan.config.diskBytes)
    disk.faultRate = faults.diskFaultRate
    const name = `disk ${index}`
    const fresh = { nodes: [], sizes: undefined, claimedBy: undefined, mayBeDamaged: false }
    machine.volumes.push({ name, identity: name, disk, ...fresh })
    return {
      plan: slotPlan,
      index,
      machine,
      starts: 0,
      process: undefined,
      gateway: undefined,
      inFlight: 0,
      whenIdle: undefined,
      isGone: false,
    }
  })

  const upstreams = createUpstreams(world, plan.troubles)
  const serveRequest = createServeRequest(world, oracle, upstreams)
  const operator = createOperator(world, server, oracle, plan.epochMs, faults)
  let ejections = 0
  const onEjected = () => {
    ejections++
  }
  const probeCustomers = new Map<number, Customer>()

  return {
    begin,
    heal,
    isQuiet,
    whatIsLeft,
    probe,
    restoreOffers,
    repeatRequests,
    isProbed: () => probesLeft === 0,
    checkEnd,
    counts,
  }

  function begin(): void {
    for (const { customerId, creditNanos } of plan.customers) server.model.openAccount(customerId, creditNanos)
    server.slowMs = faults.slowMs
    for (const slot of slots) start(slot)
    for (const request of plan.requests) world.at(request.atMs, () => ask(request))
    for (const { atMs, customer, amountNanos } of plan.topUps) {
      world.at(atMs, () => {
        customer.creditNanos += amountNanos
        server.model.grantCredit(customer.customerId, amountNanos)
      })
    }
    for (const refund of plan.refunds) world.at(refund.atMs, () => operator.orderRefund(refund))
    const ways = createFaults({
      world,
      machines: machines.map(machine => {
        const ofMachine = slots.filter(slot => slot.machine === machine)
        return {
          ...machine,
          processes: () => ofMachine.flatMap(({ process }) => process ?? []),
          shutDownOne: () => shutDown(random.pick(ofMachine)),
        }
      }),
      server,
      oracle,
      fsync: plan.config.fsync,
      stepsDatabaseClock: faults.stepsDatabaseClock,
      losesTransactions: faults.losesTransactions,
    })
    for (let fault = 0; fault < faults.count; fault++) {
      world.at(random.next() * plan.loadMs, () => {
        if (!healing) random.pick(ways)()
      })
    }
  }

  // ---------------------------------------------------------------- processes

  function start(slot: Slot): void {
    if (slot.isGone) return
    const name = `node ${slot.index}.${++slot.starts}`
    world.note(name, 'starts')
    const process = createProcess(world, name, slot.machine.clock)
    slot.process = process
    slot.inFlight = 0
    slot.whenIdle = undefined
    process.onDeath(() => {
      oracle.died(process)
      slot.gateway = undefined
      slot.process = undefined
      if (!slot.isGone)
        world.at(world.nowMs + (healing ? random.skewed(100, 5_000) : random.skewed(50, 100_000)), () => start(slot))
    })
    const { volumes } = slot.machine
    const link = createLink(world, process, slot.machine.link, server, oracle)
    startGateway({ world, process, link, volumes, nodeShard: slot.index, config: plan.config, newId, onEjected }).then(
      gateway => {
        if (process.isAlive) slot.gateway = gateway
        world.note(name, 'serves')
      },
      // Without a database the process ends, and a new one starts.
      error => {
        world.note(name, 'cannot start', String(error))
        process.kill()
      },
    )
  }

  function shutDown(slot: Slot): void {
    const { gateway } = slot
    if (gateway === undefined) return
    world.note(gateway.process.name, 'drains')
    slot.gateway = undefined
    const stop = () => void gateway.stop()
    if (slot.inFlight === 0) stop()
    else slot.whenIdle = stop
  }

  // ---------------------------------------------------------------- clients

  function ask(request: RequestPlan): void {
    // As a load balancer does, try another node when the preferred one does not answer.
    const preferred = slots[request.slot]!
    const slot = preferred.gateway ? preferred : slots.find(other => other.gateway !== undefined)
    if (slot?.gateway !== undefined) void serve(slot, slot.gateway, request)
  }

  function serve(slot: Slot, gateway: Gateway, request: RequestPlan): Promise<RequestRecord> {
    slot.inFlight++
    return serveRequest(gateway, request, () => {
      slot.inFlight--
      if (slot.inFlight === 0) slot.whenIdle?.()
    })
  }

  // ---------------------------------------------------------------- healing

  function heal(): void {
    world.note('world', 'heals')
    healing = true
    oracle.healed()
    upstreams.heal()
    operator.heal()
    for (const { link, volumes } of machines) {
      Object.assign(link, createLinkState())
      for (const { disk } of volumes) disk.repair()
    }
    server.heal()
    for (const slot of slots) {
      slot.process?.killAfter(Number.POSITIVE_INFINITY)
      // Some stopped nodes never return, nor do their journals: other nodes must end their leases.
      const [volume, ...more] = slot.machine.volumes
      if (slot.process !== undefined || more.length > 0 || random.chance(0.7)) continue
      if (slots.every(other => other === slot || other.isGone)) continue
      slot.isGone = true
      oracle.lost(volume!)
    }
  }

  function isQuiet(): boolean {
    return whatIsLeft() === ''
  }

  function whatIsLeft(): string {
    const left: string[] = []
    if (server.state !== 'up') left.push(`the database is ${server.state}`)
    for (const slot of slots) {
      if (slot.isGone) continue
      if (slot.process?.isPaused) left.push(`node ${slot.index} is paused`)
      else if (slot.gateway === undefined) left.push(`node ${slot.index} is not serving`)
      else {
        const { ledger, journal, process } = slot.gateway
        const { admissions, settlements } = ledger.pending
        if (admissions + settlements + journal.entries > 0) {
          left.push(
            `${process.name} has ${admissions} admissions, ${settlements} settlements, ${journal.entries} records`,
          )
        }
        if (slot.inFlight > 0) left.push(`${process.name} runs ${slot.inFlight} requests`)
      }
    }
    if (operator.refundsLeft > 0) left.push(`${operator.refundsLeft} refunds`)
    for (const { leaseId, nodeId } of server.model.tables.leases.values()) left.push(`lease ${leaseId} of ${nodeId}`)
    return left.slice(0, 5).join('; ')
  }

  /** Sends requests of a new customer to each node, until one is served. */
  function probe(): void {
    for (const slot of slots) {
      if (slot.isGone) continue
      probesLeft++
      const customer: Customer = {
        customerId: idOf('customer', 1000 + slot.index),
        creditNanos: 50_000_000n,
        limits: { requestsPerMinute: 1_000, requestsPerDay: 1_000, dailySpendCapNanos: 1_000_000_000n },
      }
      probeCustomers.set(slot.index, customer)
      server.model.openAccount(customer.customerId, customer.creditNanos)
      void probeSlot(slot, customer)
    }
  }

  async function probeSlot(slot: Slot, customer: Customer): Promise<void> {
    const request = probeRequest(slot, customer, 'small', [0, 1, 2])
    if (slot.gateway !== undefined && (await serve(slot, slot.gateway, request)).state === 'answered') {
      probesLeft--
      return
    }
    // The node may have just learned that it was declared dead.
    world.at(world.nowMs + 3_000, () => void probeSlot(slot, customer))
  }

  function probeRequest(slot: Slot, customer: Customer, modelId: string, endpoints: readonly number[]): RequestPlan {
    const pricing = planPricing(random, modelId, 100_000, endpoints)
    const { customerId, limits } = customer
    return {
      atMs: world.nowMs,
      admission: {
        requestId: newRequestId(),
        customerId,
        keyId: idOf('key', 1_000_000),
        keyLimit: null,
        memberLimit: null,
        modelId,
        limits,
        ask: pricing.hold,
      },
      customer,
      slot: slot.index,
      runsMs: 10,
      pricing: { ...pricing, share: 700 },
      idempotency: null,
      leaves: null,
    }
  }

  function newRequestId(): string {
    return idOf('request', 100_000 + ids++)
  }

  /** Sends requests to the ejected offers of each node, one after the other, when their rest is over. */
  function restoreOffers(): void {
    // Simulating minutes of quiet takes longer than the rest of a run, so most runs wait only for short rests.
    const timeoutMs = random.chance(0.05) ? Number.POSITIVE_INFINITY : 20_000
    for (const slot of slots) {
      const tripped = slot.gateway?.breaker.trippedOffers() ?? []
      for (const { offerId, restsMs } of tripped) {
        if (restsMs > timeoutMs) continue
        probesLeft++
        world.at(world.nowMs + restsMs + 1, () => void restoreOffer(slot, offerId, 1))
      }
    }
  }

  async function restoreOffer(slot: Slot, offerId: string, attempt: number): Promise<void> {
    const customer = probeCustomers.get(slot.index)!
    for (const modelId of MODELS) {
      const index = ENDPOINTS.findIndex(endpoint => offerIdOf(endpoint, modelId) === offerId)
      if (index >= 0 && slot.gateway !== undefined)
        await serve(slot, slot.gateway, probeRequest(slot, customer, modelId, [index]))
    }
    const tripped = slot.gateway?.breaker.trippedOffers().find(offer => offer.offerId === offerId)
    if (tripped === undefined) probesLeft--
    else if (attempt === RESTORE_ATTEMPTS) world.fail('healed_offers_are_restored', `node ${slot.index}, ${offerId}`)
    else world.at(world.nowMs + tripped.restsMs + 1, () => void restoreOffer(slot, offerId, attempt + 1))
  }

  /** Sends some of the keyed requests again: every key must become available. */
  function repeatRequests(): void {
    // The product compares clocks to decide whether a request has just ended. After a failover, a key that was released may be in use again, for as
    // long as its node lives.
    if (oracle.hasSteppedClocks || oracle.counts.rolledBack > 0) return
    const keyed = plan.requests.filter(({ idempotency }) => idempotency !== null)
    for (const request of keyed.slice(0, 8)) {
      probesLeft++
      void repeatRequest(request)
    }
  }

  async function repeatRequest(request: RequestPlan): Promise<void> {
    const slot = slots.find(({ gateway }) => gateway !== undefined)
    if (slot?.gateway !== undefined) {
      const admission = { ...request.admission, requestId: newRequestId() }
      const { state, isKeyInUse } = await serve(slot, slot.gateway, { ...request, admission, leaves: null })
      if (state !== 'asked' && !isKeyInUse) {
        probesLeft--
        return
      }
    }
    world.at(world.nowMs + 3_000, () => void repeatRequest(request))
  }

  // ---------------------------------------------------------------- the end

  function checkEnd(): void {
    oracle.checkEnd()
    for (const { gateway } of slots) gateway?.breaker.checkIdle()
  }

  function counts(): RunCounts {
    return { ...countsOf(oracle), ejections }
  }
}

function countsOf(oracle: Oracle): Omit<RunCounts, 'ejections'> {
  const states = { answered: 0, refused: 0, failed: 0, voided: 0, cut: 0 }
  for (const { state } of oracle.requests.values()) if (state in states) states[state as keyof typeof states]++
  return { requests: oracle.requests.size, ...states, ...oracle.counts }
}
