/** The span of a client that a request belongs to, by its header `traceparent` (W3C Trace Context). */
export interface TraceParent {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string
  /** 16 lower-case hex digits, not all zero. */
  readonly spanId: string
  /** Whether the client records this trace. */
  readonly isSampled: boolean
  /** The header `tracestate`, for servers that the trace is passed on to. Null: none, or longer than it may be. */
  readonly state: string | null
}

/**
 * Reads the trace of a request from its headers, names and values in turn. Null if it has none, or one that is not
 * valid: then the request begins a trace of its own.
 */
export function readTraceParent(rawHeaders: readonly string[]): TraceParent | null {
  let parent: string | undefined
  let state: string | undefined
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    // Comparing lengths first spares most names the lower case.
    if (name.length === PARENT.length && name.toLowerCase() === PARENT) {
      if (parent !== undefined) return null
      parent = rawHeaders[at + 1]
    } else if (name.length === STATE.length && name.toLowerCase() === STATE) {
      const more = rawHeaders[at + 1] ?? ''
      state = state === undefined ? more : `${state},${more}`
    }
  }
  return parent === undefined ? null : parse(parent, state)
}

const PARENT = 'traceparent'
const STATE = 'tracestate'

/** Section 3.3.1.5: at least this much must be passed on. Longer lists are left out. */
const STATE_LENGTH_MAX = 512

function parse(parent: string, state: string | undefined): TraceParent | null {
  const match = /^(?!ff)([\da-f]{2})-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(-.*)?$/.exec(parent)
  if (match === null) return null
  const [, version, traceId = '', spanId = '', flags = '', more] = match
  // Later versions may append fields.
  if (version === '00' && more !== undefined) return null
  const isPassable = state !== undefined && state.length <= STATE_LENGTH_MAX && /^[\x21-\x7e][\x20-\x7e]*$/.test(state)
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1, state: isPassable ? state : null }
}

/** Returns the lines of the head that pass a trace on. */
export function traceLines(traceId: string, spanId: string, isSampled: boolean, state: string | null): string[] {
  const parent = `traceparent: 00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
  return state === null ? [parent] : [parent, `tracestate: ${state}`]
}
