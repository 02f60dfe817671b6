import { describe, expect, test } from 'vitest'
import type { CellCosts } from '../../sim/cells/cell-costs.ts'
import { citedFigure } from '../../sim/cells/cited-figure.ts'
import { DAY_S, drawDay, rateAt } from '../../sim/cells/draw-day.ts'
import { costOfWork, fitCall, fitSettleBulk, type LedgerCosts } from '../../sim/cells/ledger-costs.ts'
import { moveCustomers } from '../../sim/cells/move-customers.ts'
import { placeCustomers } from '../../sim/cells/place-customers.ts'
import { requestsUntilFull } from '../../sim/cells/saturation.ts'
import { type CellSetup, simulateCells } from '../../sim/cells/simulate-cells.ts'
import { sumRowsOf, workOf } from '../../sim/cells/work.ts'
import { zipfShares } from '../../sim/cells/zipf.ts'
import { createRandom } from '../../sim/random.ts'

const CUSTOMERS = 20_000
const CELLS = 7
const PEAK = 1.8

const place = (exponent: number) => {
  const shares = zipfShares(CUSTOMERS, exponent)
  return { shares, placement: placeCustomers(shares, CELLS, createRandom(1)) }
}
const sum = (values: Iterable<number>) => [...values].reduce((total, value) => total + value, 0)

describe("Zipf's law", () => {
  test.each([0.8, 1, 1.2])('with the exponent %d gives each rank its share', exponent => {
    const shares = zipfShares(CUSTOMERS, exponent)
    const weights = sum(Array.from(shares, (_, rank) => (rank + 1) ** -exponent))
    expect(sum(shares)).toBeCloseTo(1, 9)
    for (const rank of [1, 2, 10, CUSTOMERS]) expect(shares[rank - 1]).toBeCloseTo(rank ** -exponent / weights, 12)
  })
})

describe('placed customers', () => {
  test('are each in one cell, and the cells have all of them and all requests', () => {
    const { placement } = place(1)
    expect(sum(placement.cells.map(({ customers }) => customers))).toBe(CUSTOMERS)
    expect(sum(placement.cells.map(({ share }) => share))).toBeCloseTo(1, 9)
  })

  test('have the same requests in groups as one by one', () => {
    const { placement } = place(1)
    for (const { share, customers, population } of placement.cells) {
      expect(sum(population.counts)).toBe(customers)
      expect(workOf(population, 1_000).requests / 1_000).toBeCloseTo(share, 3)
    }
  })

  test('are in the same cells with the same seed, and in others with another', () => {
    const shares = zipfShares(CUSTOMERS, 1)
    const cellsOf = (seed: number) => placeCustomers(shares, CELLS, createRandom(seed)).cellOf
    expect(cellsOf(5)).toEqual(cellsOf(5))
    expect(cellsOf(5)).not.toEqual(cellsOf(6))
  })
})

describe('a day', () => {
  test('has its mean rate over all seconds, and its peak at 14:00', () => {
    const rates = Array.from({ length: DAY_S }, (_, second) => rateAt(second, PEAK))
    expect(sum(rates) / DAY_S).toBeCloseTo(1, 9)
    expect(rateAt(14 * 3_600, PEAK)).toBeCloseTo(PEAK, 9)
  })

  test.each([1_000, 100_000, 20_000_000])('of %d requests is drawn with about as many', requests => {
    const day = drawDay(requests, PEAK, createRandom(3))
    // Five standard deviations of Poisson's distribution.
    expect(Math.abs(day.requests - requests)).toBeLessThan(5 * Math.sqrt(requests))
    expect(day.requestsInBusiestSecond).toBeGreaterThan((requests / DAY_S) * PEAK)
  })
})

describe('work', () => {
  test('is admitted by strict leases for rare customers, and by bulk leases for frequent ones', () => {
    const population = (share: number) => ({ counts: Uint32Array.of(100), shares: Float64Array.of(share) })
    // One request in 17 minutes, and ten in a second.
    const rare = workOf(population(0.001), 1)
    const frequent = workOf(population(0.01), 1_000)
    expect(rare.strictRequests / rare.requests).toBeCloseTo(Math.exp(-0.12), 6)
    expect(frequent.bulkRequests / frequent.requests).toBeCloseTo(1, 6)
    expect(frequent.bulkLeases).toBeCloseTo(100 / 60, 6)
    expect(frequent.bulkCustomers).toBeLessThan(frequent.bulkRequests)
  })

  test('writes a row of sums for each hour and each day with a request', () => {
    const busy = { counts: Uint32Array.of(3), shares: Float64Array.of(1 / 3) }
    expect(sumRowsOf(busy, 1_000_000, PEAK)).toEqual({ hours: expect.closeTo(72, 6), days: expect.closeTo(3, 6) })
    const single = { counts: Uint32Array.of(1_000), shares: Float64Array.of(1 / 1_000) }
    const { hours, days } = sumRowsOf(single, 10, PEAK)
    // Hardly anybody sends two requests.
    expect(hours).toBeCloseTo(10, 0)
    expect(days).toBeCloseTo(10, 0)
  })
})

describe('costs', () => {
  test('of calls are fitted from two sizes', () => {
    expect(fitCall({ items: 4, costPerCall: 108 }, { items: 128, costPerCall: 356 })).toEqual({
      perCall: 100,
      perItem: 2,
    })
  })

  test('of settled bulk leases tell requests from customers', () => {
    const cost = (items: number, customers: number) => ({ items, costPerCall: 100 + 3 * items + 20 * customers })
    expect(fitSettleBulk(cost(4, 4), cost(128, 128), cost(128, 1))).toEqual({
      perCall: 100,
      perItem: 3,
      perCustomer: 20,
    })
  })

  test('fall with more requests a second, because calls take more of them', () => {
    const { placement } = place(1)
    const [cell] = placement.cells
    const costPerRequest = (requestsPerS: number) => {
      const work = workOf(cell?.population ?? { counts: new Uint32Array(), shares: new Float64Array() }, requestsPerS)
      return costOfWork(work, ledgerCosts, 1, 0.001) / work.requests
    }
    expect(costPerRequest(100_000)).toBeLessThan(costPerRequest(1_000))
  })
})

describe('moves', () => {
  test('leave no cell with a tenth more than the mean, or than the largest customer', () => {
    for (const exponent of [0.5, 1, 1.2]) {
      const { shares, placement } = place(exponent)
      const { moves, busiestBefore, busiestAfter } = moveCustomers(shares, placement)
      expect(busiestAfter).toBeLessThanOrEqual(1.1 * Math.max(1 / CELLS, shares[0] ?? 0))
      expect(busiestAfter).toBeLessThanOrEqual(busiestBefore)
      expect(moves > 0).toBe(busiestAfter < busiestBefore)
    }
  })
})

describe('the whole simulation', () => {
  test('gives the same result for the same seed', () => {
    const simulate = (seed: number) => simulateCells(setup, 1, seed, []).cells.map(({ load, day }) => ({ load, day }))
    expect(simulate(4)).toEqual(simulate(4))
    expect(simulate(4)).not.toEqual(simulate(5))
  })

  test('gives all cells together the requests of the day', () => {
    const { cells } = simulateCells(setup, 1, 1, [])
    const { requestsPerDay } = setup.traffic
    const drawn = sum(cells.map(({ day }) => day.requests))
    expect(Math.abs(drawn - requestsPerDay)).toBeLessThan(5 * Math.sqrt(requestsPerDay))
    expect(sum(cells.map(({ load }) => load.requestsPerDay)) / requestsPerDay).toBeCloseTo(1, 3)
  })

  test('finds the requests a day at which a resource is full', () => {
    expect(requestsUntilFull(requests => requests / 4e9, 1e9)).toBeCloseTo(4e9, 0)
    expect(requestsUntilFull(requests => 0.01 + requests / 4e9, 1e9) / 1e9).toBeCloseTo(3.96, 6)
  })
})

test('figures are read from the reports of others', () => {
  const report =
    '# Report\n\n## A\n\n| load | µs |\n| --- | ---: |\n| one | 1 |\n\n## B\n\n| load | µs |\n| --- | ---: |\n| one | 1,119 (1,110 to 1,123) |\n'
  expect(citedFigure(report, 'B', 'one', 'µs')).toBe(1_119)
  expect(() => citedFigure(report, 'A', 'two', 'µs')).toThrow('no report has "two", "µs" below "## A"')
  expect(() => citedFigure(report, 'C', 'one', 'µs')).toThrow('below "## C"')
})

const call = { perCall: 1_000, perItem: 50 }
const ledgerCosts: LedgerCosts = {
  admit: call,
  grant: call,
  handBack: call,
  settleStrict: call,
  settleBulk: { perCall: 1_000, perItem: 10, perCustomer: 40 },
}
const costs: CellCosts = {
  cpuUs: ledgerCosts,
  walBytes: ledgerCosts,
  firstTouchWalBytes: 10_000,
  vacuumCpuUsPerRequest: 1,
  vacuumWalBytesPerRequest: 10,
  othersCpuShare: 0.1,
  admissionS: 0.001,
  keyLookUpCpuUs: 100,
  bytesPerRow: { usageEvent: 400, ledgerEntry: 150, ledgerTx: 100, usageHour: 200, usageDay: 250, usageKeyDay: 200 },
  bytesPerCustomer: 1_000,
  directoryBytesPerKey: 150,
  strictRequestsPerSOfOne: 5_000,
  bulkRequestsPerSOfOne: 40_000,
}
const setup: CellSetup = {
  traffic: { cells: CELLS, customers: CUSTOMERS, requestsPerDay: 1e7, peak: PEAK, keepMonths: 3 },
  machine: { cores: 8, diskBytes: 2e12, diskBytesPerS: 200e6, connections: 300 },
  costs,
  cited: { gatewayCpuUs: 119, hopCpuUs: 49, archivedBytes: 77.8 },
}
