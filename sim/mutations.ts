/** A bug that is planted on purpose: the simulator has to find it, or it would not find such a bug that slipped in. */
export interface Mutation {
  readonly id: string
  readonly bug: string
  /** From the root of the repository. */
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
}

/** Plants the bug in the source of its file. Throws when the place is not there exactly once: the source has moved on, and this list has to. */
export function mutated({ id, file, find, replace }: Mutation, source: string): string {
  const places = source.split(find).length - 1
  if (places !== 1) throw new Error(`${id}: its place occurs ${places} times in ${file}, not once`)
  return source.replace(find, () => replace)
}

const model = 'sim/model-database.ts'
const ledger = 'src/ledger/ledger.ts'
const book = 'src/ledger/lease-book.ts'
const journal = 'src/journal/journal.ts'
const money = 'src/domain/money.ts'

export const mutations: readonly Mutation[] = [
  // ---------------------------------------------------------------- admit_batch
  {
    id: 'admit-without-fence',
    bug: 'a node that was declared dead is still given leases',
    file: model,
    find: 'if (!isAlive(nodeId)) throw new NodeFenced(nodeId)',
    replace: '',
  },
  {
    id: 'admit-counts-a-repetition',
    bug: 'an admission that is sent twice is counted and held twice',
    file: model,
    find: 'const already = leases.get(asked.leaseId)',
    replace: 'const already = undefined as LeaseRow | undefined',
  },
  {
    id: 'admit-overlooks-holds',
    bug: 'what other requests hold counts as free',
    file: model,
    find: 'const free = account.posted - account.leased',
    replace: 'const free = account.posted',
  },
  {
    id: 'admit-overlooks-cap-holds',
    bug: "what other requests hold does not count against the day's cap",
    file: model,
    find: 'account.daySpent - account.dayLeased, 0n)',
    replace: 'account.daySpent, 0n)',
  },
  {
    id: 'admit-one-too-many-a-minute',
    bug: 'one request more than the limit of the minute is admitted',
    file: model,
    find: 'account.minuteRequests >= limits.requestsPerMinute',
    replace: 'account.minuteRequests > limits.requestsPerMinute',
  },
  {
    id: 'admit-one-too-many-a-day',
    bug: 'one request more than the limit of the day is admitted',
    file: model,
    find: 'account.dayRequests >= limits.requestsPerDay',
    replace: 'account.dayRequests > limits.requestsPerDay',
  },
  {
    id: 'admit-slots-uncounted',
    bug: 'the slots of a bulk lease are not counted in the minute',
    file: model,
    find: 'account.minuteRequests += slots',
    replace: 'account.minuteRequests += 0',
  },
  {
    id: 'admit-lease-without-cap-day',
    bug: "a new lease is not counted in the day's holds",
    file: model,
    find: 'account.dayLeased += held!',
    replace: '',
  },
  {
    id: 'admit-keeps-yesterday',
    bug: "the counters of yesterday's cap are taken into today",
    file: model,
    find: 'account.daySpent = 0n\n',
    replace: '',
  },
  {
    id: 'admit-below-the-floor',
    bug: 'less is held than the request needs at least',
    file: model,
    find: 'if (least(free, capLeft) >= asked.floor!) {',
    replace: 'if (least(free, capLeft) > 0n) {',
  },
  // ---------------------------------------------------------------- hand_back_leases
  {
    id: 'hand-back-without-fold',
    bug: 'a lease is closed without charging the balance with what was settled on it',
    file: model,
    find: 'posted: balance.posted - settled,',
    replace: 'posted: balance.posted,',
  },
  {
    id: 'hand-back-folds-twice',
    bug: 'what was folded stays on the lease and is folded again',
    file: model,
    find: `          settled: 0n,
          slots: lease.slots - unused,`,
    replace: `          slots: lease.slots - unused,`,
  },
  {
    id: 'hand-back-ignores-keep',
    bug: 'what running requests need is given back too',
    file: model,
    find: 'granted - settled - (keepNanos ?? 0n), 0n)',
    replace: 'granted - settled, 0n)',
  },
  {
    id: 'hand-back-returns-used-slots',
    bug: 'slots that were used are free again in the day',
    file: model,
    find: 'dayRequests: balance.dayRequests - (isToday ? unused : 0),',
    replace: 'dayRequests: balance.dayRequests - (isToday ? lease.slots : 0),',
  },
  {
    id: 'hand-back-to-another-minute',
    bug: 'slots of a minute that is over are returned to the minute that runs',
    file: model,
    find: '(lease.slotMinute === balance.minute ? unused : 0)',
    replace: 'unused',
  },
  {
    id: 'hand-back-to-another-day',
    bug: "yesterday's lease is taken off today's cap",
    file: model,
    find: 'dayLeased: balance.dayLeased - (isToday ? settled + given : 0n),',
    replace: 'dayLeased: balance.dayLeased - settled - given,',
  },
  // ---------------------------------------------------------------- settle_batch
  {
    id: 'settle-charges-beyond-lease',
    bug: 'a cost above its strict lease is charged whole',
    file: model,
    find: 'charge = least(costNanos, strict.granted)',
    replace: 'charge = costNanos',
  },
  {
    id: 'settle-charges-twice',
    bug: 'a settlement that is sent again is charged again (no ON CONFLICT)',
    file: model,
    find: `      if (usage.get(customerId)?.has(requestId)) continue
      check(`,
    replace: `      check(`,
  },
  {
    id: 'settle-late-twice',
    bug: 'a settlement without a lease is not checked for a row that exists',
    file: model,
    find: "done !== undefined && done.outcome !== 'node_died'",
    replace: 'false as boolean',
  },
  {
    id: 'settle-spares-the-last-nano',
    bug: 'a charge that uses a bulk lease up finds no room in it',
    file: model,
    find: 'if (soFar <= room) continue',
    replace: 'if (soFar < room) continue',
  },
  {
    id: 'settle-late-without-balance',
    bug: 'what comes after its lease is gone is charged to a balance that others hold',
    file: model,
    find: 'if (cost > 0n && cost <= free) {',
    replace: 'if (cost > 0n) {',
  },
  {
    id: 'settle-keeps-lease',
    bug: 'a settled strict lease stays',
    file: model,
    find: `      dropLease(lease)
      ended.set(`,
    replace: `      ended.set(`,
  },
  {
    id: 'settle-wrong-cap-day',
    bug: "yesterday's lease is charged to today's cap",
    file: model,
    find: 'if (row.capDay === balances.get(row.customerId)?.day) move.dayCost += row.cost',
    replace: 'move.dayCost += row.cost',
  },
  {
    id: 'settle-forgets-fee',
    bug: "the platform's fee has no entry",
    file: model,
    find: "add('platform_revenue', PLATFORM, fee)",
    replace: '',
  },
  {
    id: 'settle-death-counted-twice',
    bug: 'a row of the reaper that gives way stays in the sums of its hour',
    file: model,
    find: 'addToRollup({ ...rollupKey(row, nodeShard), ...nothing, requests: -1 })',
    replace: '',
  },
  {
    id: 'settle-clamped-share-rounds-up',
    bug: "the hoster's part of a cut charge is rounded up",
    file: model,
    find: ': (hosterShareNanos * charge) / costNanos',
    replace: ': (hosterShareNanos * charge + costNanos - 1n) / costNanos',
  },
  // ---------------------------------------------------------------- leases whose owner is gone
  {
    id: 'release-without-cap',
    bug: "a released lease stays in the day's holds",
    file: model,
    find: 'dayLeased: balance.dayLeased - (lease.capDay === balance.day ? lease.granted : 0n),\n      })\n    }\n    return released',
    replace: '})\n    }\n    return released',
  },
  {
    id: 'bury-without-grace',
    bug: 'a node is declared dead as soon as it has expired',
    file: model,
    find: 'node.expiresAtMs < beforeMs &&',
    replace: 'node.expiresAtMs < epochMs() &&',
  },
  {
    id: 'bury-after-restart',
    bug: 'nodes are declared dead right after the database was away',
    file: model,
    find: 'const isUpLongEnough = startedAtMs < beforeMs || startedAtMs > epochMs()',
    replace: 'const isUpLongEnough = true',
  },
  {
    id: 'heartbeat-revives',
    bug: 'a heartbeat brings a dead node back with the leases that were taken from it',
    file: model,
    find: "if (nodes.get(nodeId)?.state !== 'alive') return { isAlive: false, recalled: [] }",
    replace: '',
  },
  {
    id: 'reclaim-from-the-living',
    bug: 'all leases of a customer are taken, not only those of dead nodes',
    file: model,
    find: 'if (isAlive(lease.nodeId)) continue\n      reclaimed++',
    replace: 'reclaimed++',
  },
  {
    id: 'reclaim-without-fold',
    bug: 'what was settled on a bulk lease is given back when its node dies',
    file: model,
    find: 'posted: balance.posted - lease.settled,',
    replace: 'posted: balance.posted,',
  },
  {
    id: 'reclaim-without-row',
    bug: 'a request that died with its node leaves no usage row',
    file: model,
    find: 'put(of(usage, customerId), lease.leaseId, row)',
    replace: '',
  },
  // ---------------------------------------------------------------- the ledger
  {
    id: 'ledger-books-nothing',
    bug: 'the book takes every request of a bulk lease for free',
    file: ledger,
    find: 'book.charge(leaseId, requestId, chargedNanos)',
    replace: 'book.charge(leaseId, requestId, 0n)',
  },
  {
    id: 'ledger-forgets-before-commit',
    bug: 'the journal may drop a record that is not committed',
    file: ledger,
    find: 'if (entry.isListed) entry.forget = forget\n      else forget()',
    replace: 'forget()',
  },
  {
    id: 'ledger-answers-before-journal',
    bug: 'the answer ends before its record is in the journal',
    file: ledger,
    find: 'journal.write(encodeSettlement(entry.settlement), (failure',
    replace: 'makeSafe(entry)\n    journal.write(encodeSettlement(entry.settlement), (failure',
  },
  {
    id: 'ledger-answers-without-journal',
    bug: 'a record that the journal refused counts as written',
    file: ledger,
    find: `        void settlements.flush()
        watch()
        return`,
    replace: `        makeSafe(entry)
        return`,
  },
  {
    id: 'ledger-charges-void-answers',
    bug: 'an answer that its caller was told is free is charged',
    file: ledger,
    find: 'entry.settlement = freeOf(entry.settlement)',
    replace: '',
  },
  {
    id: 'ledger-sends-again-when-fenced',
    bug: 'an admission that was sent under the old id of the node is sent again under the new one',
    file: ledger,
    find: 'else if (ghosts.has(entry.request.requestId))\n          rejectAdmission',
    replace: 'else if (false as boolean)\n          rejectAdmission',
  },
  {
    id: 'ledger-forgets-ghosts',
    bug: 'a strict lease whose admission was given up is never released',
    file: ledger,
    find: 'if (ghosts.has(entry.request.requestId) || admissions.isUnderWay(entry)) bury(entry.request.requestId)',
    replace: '',
  },
  {
    id: 'ledger-releases-running',
    bug: 'the lease of a request that runs is released when its admission was sent twice',
    file: ledger,
    find: 'else ghosts.set(entry.request.requestId, undefined)',
    replace: 'else bury(entry.request.requestId)',
  },
  {
    id: 'ledger-buries-the-second-try',
    bug: 'the lease of a request that is admitted at its second try is released when its first one broke off',
    file: ledger,
    find: 'would be released under the running request.\n      return',
    replace: '\n      if (isUnwanted) bury(requestId)\n      return',
  },
  {
    id: 'ledger-forgets-ghost-grants',
    bug: 'a bulk lease that was given up is not looked for again',
    file: ledger,
    find: 'if (entry.answered && !book.has(leaseId)) dead.push(leaseId)',
    replace: '',
  },
  {
    id: 'ledger-never-settles-late',
    bug: 'a charge whose bulk lease is gone is dropped',
    file: ledger,
    find: "if (effect === 'fenced') settleLate(entry)\n        else finish(",
    replace: 'finish(',
  },
  {
    id: 'ledger-late-under-old-lease',
    bug: 'a charge whose bulk lease is gone is sent again as it is',
    file: ledger,
    find: 'entry.settlement = { ...entry.settlement, leaseId: entry.settlement.requestId }',
    replace: '',
  },
  {
    id: 'ledger-leaves-settled-open',
    bug: 'the book is not told what was committed, so leases never close',
    file: ledger,
    find: 'unsettled.remove(entry)\n    if (entry.bookedNanos !== null) book.settled(leaseId, entry.bookedNanos)',
    replace: 'unsettled.remove(entry)',
  },
  {
    id: 'ledger-skips-a-recovered-record',
    bug: 'the oldest record of a journal is not replayed',
    file: ledger,
    find: 'const all = recovered.map(',
    replace: 'const all = recovered.slice(1).map(',
  },
  {
    id: 'ledger-hides-what-is-left',
    bug: 'a node is retired although settlements are left after its drain',
    file: ledger,
    find: 'return settlements.size\n',
    replace: 'return 0\n',
  },
  {
    id: 'record-forgets-its-lease',
    bug: 'a record of the journal does not tell which lease pays',
    file: 'src/ledger/settlement-record.ts',
    find: 'JSON.stringify(settlement, bigintAsText)',
    replace: 'JSON.stringify({ ...settlement, leaseId: settlement.requestId }, bigintAsText)',
  },
  {
    id: 'lane-gives-up',
    bug: 'a batch is not sent again after its connection broke',
    file: 'src/ledger/lane.ts',
    find: 'batch = batch.filter(options.isWanted)\n',
    replace: 'return\n',
  },
  {
    id: 'lane-takes-deadlocks-for-refusals',
    bug: 'a deadlock counts as an error of the data',
    file: 'src/ledger/is-transient.ts',
    find: "'40', ",
    replace: '',
  },
  {
    id: 'exhausted-for-ever',
    bug: 'who used up a minute is refused for all time',
    file: 'src/ledger/exhausted-windows.ts',
    find: 'isExhausted && monotonicMs() < known.untilMs',
    replace: 'isExhausted',
  },
  // ---------------------------------------------------------------- bulk leases in memory
  {
    id: 'book-holds-nothing',
    bug: 'a request admitted in memory takes nothing from its lease',
    file: book,
    find: 'lease.leftNanos -= holdNanos',
    replace: '',
  },
  {
    id: 'book-ignores-slots',
    bug: 'more requests are admitted in memory than the lease has slots',
    file: book,
    find: 'nowMs >= lease.untilMs || lease.slotsUsed >= lease.slots || !mayAdmit()',
    replace: 'nowMs >= lease.untilMs || !mayAdmit()',
  },
  {
    id: 'book-ignores-the-minute',
    bug: 'slots of a minute that is over are used in the next',
    file: book,
    find: 'nowMs >= lease.untilMs || lease.slotsUsed >= lease.slots || !mayAdmit()',
    replace: 'lease.slotsUsed >= lease.slots || !mayAdmit()',
  },
  {
    id: 'book-ignores-the-fence',
    bug: 'a node cut off from the database goes on admitting in memory',
    file: book,
    find: 'lease.slotsUsed >= lease.slots || !mayAdmit()',
    replace: 'lease.slotsUsed >= lease.slots',
  },
  {
    id: 'book-counts-the-minute-from-the-answer',
    bug: 'the end of the minute is counted from when the grant arrived',
    file: book,
    find: 'untilMs: sentAtMs +',
    replace: 'untilMs: nowMs +',
  },
  {
    id: 'book-stretches-the-minute',
    bug: 'a minute is taken to last 600 ms longer than it does',
    file: book,
    find: 'CLOCK_MARGIN = 0.999',
    replace: 'CLOCK_MARGIN = 1.01',
  },
  {
    id: 'book-keeps-nothing',
    bug: 'a draining lease gives back what its running requests hold',
    file: book,
    find: 'keepNanos: lease.owedNanos',
    replace: 'keepNanos: 0n',
  },
  {
    id: 'book-closes-too-early',
    bug: 'a lease is closed while charges on it are not committed',
    file: book,
    find: 'lease.open.size === 0 && lease.unsettled === 0',
    replace: 'lease.open.size === 0',
  },
  {
    id: 'book-closes-on-running',
    bug: 'a lease is closed while requests on it run',
    file: book,
    find: 'lease.open.size === 0 && lease.unsettled === 0',
    replace: 'lease.unsettled === 0',
  },
  {
    id: 'book-returns-used-slots',
    bug: 'a lease gives back slots that were used',
    file: book,
    find: 'return { leaseId, keepNanos: null, slotsUsed }',
    replace: 'return { leaseId, keepNanos: null, slotsUsed: 0 }',
  },
  {
    id: 'book-owes-the-hold',
    bug: 'what a request did not use of its hold stays owed, so a lease is never given back whole',
    file: book,
    find: 'lease.owedNanos -= holdNanos - costNanos',
    replace: 'lease.owedNanos -= holdNanos',
  },
  // ---------------------------------------------------------------- the life of a node
  {
    id: 'node-reuses-its-id',
    bug: 'a node that was declared dead registers under the same id',
    file: 'src/ledger/node-life.ts',
    find: 'const newId = deps.newId()',
    replace: 'const newId = nodeId || deps.newId()',
  },
  {
    id: 'node-trusts-too-long',
    bug: 'a node that hears nothing trusts its leases for ten minutes',
    file: 'src/ledger/ledger-store.ts',
    find: 'SELF_FENCE_MS = 12_000',
    replace: 'SELF_FENCE_MS = 600_000',
  },
  // ---------------------------------------------------------------- the journal
  {
    id: 'journal-answers-before-sync',
    bug: 'a record counts as safe before it is synced',
    file: journal,
    find: 'if (fsync) {',
    replace: 'if (false as boolean) {',
  },
  {
    id: 'journal-trusts-a-failed-sync',
    bug: 'a sync that failed counts as done',
    file: journal,
    find: 'abandonUnsynced(segment, ofSegment, error)\n          continue',
    replace: '',
  },
  {
    id: 'journal-writes-behind-a-tear',
    bug: 'what a failed write left is not cut off, and the next record comes behind it',
    file: journal,
    find: 'if (disk.list().includes(segment.name)) disk.truncate(segment.name, segment.bytes)',
    replace: '',
  },
  {
    id: 'journal-removes-live-segments',
    bug: 'a segment is removed while it has records that are not settled',
    file: journal,
    find: 'if (segment.live > 0 || segment === current) continue',
    replace: 'if (segment === current) continue',
  },
  {
    id: 'journal-recovers-the-last-segment-only',
    bug: 'segments before the last one are not recovered',
    file: journal,
    find: 'for (const name of segmentNames) {',
    replace: 'for (const name of segmentNames.slice(-1)) {',
  },
  {
    id: 'record-without-checksum',
    bug: 'a record is read without comparing its sum',
    file: 'src/journal/record.ts',
    find: 'crc32(payload) === bytes.readUInt32LE(offset + 4) ? payload : undefined',
    replace: 'payload',
  },
  // ---------------------------------------------------------------- pricing
  {
    id: 'price-rounds-down',
    bug: 'a cost is rounded down',
    file: money,
    find: '(picos + PICOS_PER_NANO - 1n) / PICOS_PER_NANO',
    replace: 'picos / PICOS_PER_NANO',
  },
  {
    id: 'price-rounds-twice',
    bug: 'prompt and answer are rounded up each by itself',
    file: money,
    find: 'return (picos + PICOS_PER_NANO - 1n) / PICOS_PER_NANO',
    replace: `const up = (part: bigint) => (part + PICOS_PER_NANO - 1n) / PICOS_PER_NANO
  return up(price.inputPicoPerToken * BigInt(inputTokens)) + up(picos - price.inputPicoPerToken * BigInt(inputTokens))`,
  },
  {
    id: 'price-affords-one-more',
    bug: 'a budget is said to pay for a token more than it does',
    file: money,
    find: 'const tokens = picosLeft / price.outputPicoPerToken',
    replace: 'const tokens = picosLeft / price.outputPicoPerToken + 1n',
  },
  {
    id: 'price-affords-without-prompt',
    bug: 'a budget is spent on the answer as if the prompt were free',
    file: money,
    find: 'budgetNanos * PICOS_PER_NANO - price.inputPicoPerToken * BigInt(inputTokens)',
    replace: 'budgetNanos * PICOS_PER_NANO',
  },
  {
    id: 'share-rounds-up',
    bug: "the hoster's part is rounded up",
    file: money,
    find: '(cost * BigInt(hosterShareBps)) / BPS',
    replace: '(cost * BigInt(hosterShareBps) + BPS - 1n) / BPS',
  },
  {
    id: 'fee-rounds-by-itself',
    bug: 'the fee is a rounded share of its own, not the rest',
    file: money,
    find: 'feeNanos: cost - hosterShareNanos',
    replace: 'feeNanos: (cost * (BPS - BigInt(hosterShareBps))) / BPS',
  },
  {
    id: 'hold-for-the-cheapest',
    bug: 'the hold pays for the cheapest candidate, not the dearest',
    file: 'src/admit/hold.ts',
    find: 'if (cost > most) most = cost',
    replace: 'if (most === 0n || cost < most) most = cost',
  },
  {
    id: 'hold-for-one-choice',
    bug: 'the hold pays for one of several choices',
    file: 'src/admit/hold.ts',
    find: 'costNanos(price, job.inputTokensBound, maxTokens * job.choices)',
    replace: 'costNanos(price, job.inputTokensBound, maxTokens)',
  },
  {
    id: 'settlement-above-the-hold',
    bug: 'what was measured is charged, whatever was held',
    file: 'src/settle/settle.ts',
    find: 'measuredNanos < ticket.holdNanos ? measuredNanos : ticket.holdNanos',
    replace: 'measuredNanos',
  },
]
