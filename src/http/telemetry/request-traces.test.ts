import { expect, test } from 'vitest'
import { ContentBudget } from './content-budget.ts'
import { GenAiMetrics } from './gen-ai-metrics.ts'
import { RequestTraces, type RequestTracesDeps } from './request-traces.ts'
import { Sampling } from './sampling.ts'
import type { Span } from './span.ts'

const requestId = '01912d68-783e-7a03-8467-5661c1243ad4'
const traceId = requestId.replaceAll('-', '')
const clientTraceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const endpoint = { endpointId: 'box', kind: 'local', hosterId: null, name: 'box', baseUrl: 'http://127.0.0.1:8000/v1' }
const offer = { offerId: 'box/m', endpoint, modelId: 'm', upstreamModel: 'm' }
const job = {
  task: 'chat',
  model: 'm',
  stream: false,
  maxTokens: 10,
  choices: 1,
  forward: { temperature: 0.5 },
  constraints: { serviceTier: 'balanced', privacyMode: false },
}
const counted = { requestId, modelId: 'm', inputTokens: 7, outputTokens: 3, latencyMs: 20, firstTokenMs: 5 }
const settlement = {
  ...counted,
  success: true,
  outcome: 'served',
  hosterId: null,
  endpointId: 'box',
  label: null,
  provider: 'local',
  routing: null,
  attempts: [{}],
  holdNanos: 20_000n,
  costNanos: 13_000n,
  writeoffNanos: 0n,
  upstreamCostNanos: null,
  finishReason: 'stop',
}
const ended = { requestId, traceId: null, path: '/v1/chat/completions', caller: undefined, status: 200, code: null }

function traces({ ratio, ...deps }: { ratio: number } & Partial<RequestTracesDeps>) {
  const spans: Span[] = []
  const metrics = new GenAiMetrics({ epochMs: () => 0 }, 'test')
  const traces = new RequestTraces({
    origin: { resource: {}, instrumentationScope: { name: 'test' } } as RequestTracesDeps['origin'],
    sampling: new Sampling({ ratio, followsParent: true, key: Buffer.from('key'), random: () => 0.5 }),
    onEnd: span => spans.push(span),
    metrics,
    budget: new ContentBudget(),
    clock: { epochMs: () => 1_000 },
    close: async () => {},
    ...deps,
  })
  return { traces, spans, metrics }
}

/** Only these properties may be read: reading another one fails the test. */
function only<T extends object>(value: T, ...names: (keyof T & string)[]): T {
  return new Proxy(value, {
    get(target, name) {
      if (!(names as (string | symbol)[]).includes(name)) throw new Error(`${String(name)} is read`)
      return Reflect.get(target, name)
    },
  })
}

/** Takes a request through all its steps. Returns the lines of the head for its server. */
function serve(traces: RequestTraces, { asked = job, settled = settlement, rawHeaders = [] as string[] } = {}) {
  type Job = Parameters<RequestTraces['asked']>[1]
  type Settled = Parameters<RequestTraces['settled']>
  expect(traces.begun(requestId, '/v1/chat/completions', rawHeaders, 990)).toBe(traces.traceIdOf(requestId))
  traces.asked(requestId, asked as unknown as Job)
  const lines = traces.attempted(requestId, offer as never, asked as unknown as Job)
  traces.settled(
    settled as unknown as Settled[0],
    { offer, billedParts: null } as unknown as Settled[1],
    asked as never,
  )
  traces.ended({ ...ended, elapsedMs: 20 })
  return lines
}

// This is what every request pays. The proxies find work for spans that nobody will see.
test('a request that is not recorded is counted, and nothing is made of it', async () => {
  const { traces: off, spans, metrics } = traces({ ratio: 0.1, clock: only({ epochMs: () => 0 }) })
  const lines = serve(off, {
    asked: only(job, 'task', 'stream'),
    settled: only(settlement, ...(Object.keys(counted) as (keyof typeof counted)[]), 'success', 'outcome'),
  })
  expect(lines).toEqual([expect.stringMatching(new RegExp(`^traceparent: 00-${traceId}-[\\da-f]{16}-00$`))])
  expect(spans).toEqual([])
  const { resourceMetrics } = await metrics.collect()
  const points = resourceMetrics.scopeMetrics[0]?.metrics.map(({ descriptor, dataPoints }) => [
    descriptor.name,
    dataPoints.length,
  ])
  expect(points).toEqual([
    ['gen_ai.client.token.usage', 2],
    ['gen_ai.client.operation.duration', 1],
  ])
})

test('the trace of a client goes on without being recorded', () => {
  const { traces: on, spans } = traces({ ratio: 1 })
  const rawHeaders = ['traceparent', `00-${clientTraceId}-00f067aa0ba902b7-00`, 'tracestate', 'vendor=1']
  expect(serve(on, { rawHeaders })).toEqual([
    expect.stringMatching(new RegExp(`^traceparent: 00-${clientTraceId}-[\\da-f]{16}-00$`)),
    'tracestate: vendor=1',
  ])
  expect(spans).toEqual([])
})

test('a recorded request is two spans, which the exporter can read', () => {
  const { traces: on, spans } = traces({ ratio: 1 })
  serve(on, { rawHeaders: ['traceparent', `00-${clientTraceId}-00f067aa0ba902b7-01`] })
  const [attempt, request] = spans
  expect(spans).toHaveLength(2)
  expect(request).toMatchObject({
    parentSpanContext: { spanId: '00f067aa0ba902b7', isRemote: true },
    startTime: [0, 990_000_000],
    endTime: [1, 0],
    duration: [0, 10_000_000],
  })
  expect(attempt?.parentSpanContext).toBe(request?.spanContext())
  expect(attempt?.spanContext().traceId).toBe(clientTraceId)
  expect(attempt?.attributes['gen_ai.request.temperature']).toBe(0.5)
})

test('a span does not end before it began when the wall clock is set back', () => {
  let nowMs = 1_000
  const { traces: on, spans } = traces({ ratio: 1, clock: { epochMs: () => nowMs-- } })
  serve(on)
  expect(spans.map(({ duration }) => duration)).toEqual([
    [0, 0],
    [0, 8_000_000],
  ])
})
