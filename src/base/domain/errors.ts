import type { CodedSentence, Said } from './said.ts'

/**
 * Every error that a caller can get, one row each: HTTP status, OpenAI error type, public message. Throwers
 * name a code, and only `http/respond-error.ts` renders. docs/errors.md mirrors this table; a test keeps them
 * equal. `shouldRetry: false` becomes the header `x-should-retry: false`: OpenAI's SDKs otherwise retry every 429
 * and 5xx twice, even when a retry cannot succeed.
 */
export const errorTable = {
  invalid_json: row(400, 'invalid_request_error', 'The body is not valid JSON. Send one JSON object, UTF-8 encoded.'),
  invalid_value: row(400, 'invalid_request_error', 'A parameter has an invalid value. Correct the one in "param".'),
  missing_parameter: row(400, 'invalid_request_error', 'A required parameter is missing. Add the one in "param".'),
  invalid_header: row(
    400,
    'invalid_request_error',
    'A request header is malformed. Send each header once, without control characters.',
  ),
  context_length_exceeded: row(
    400,
    'invalid_request_error',
    'The request exceeds the context window of the model. Shorten messages or lower max_tokens.',
  ),
  feature_not_supported: row(
    400,
    'invalid_request_error',
    'No server of this model supports a feature that the request uses. Send it without the feature, or choose another model.',
  ),
  upstream_rejected: row(
    400,
    'invalid_request_error',
    'The model server refused the request as invalid. Check that the model supports its parameters.',
  ),
  previous_response_not_found: row(
    400,
    'invalid_request_error',
    'The response in previous_response_id is not the last one of this connection. Send the whole conversation without it.',
  ),
  websocket_connection_limit_reached: row(
    400,
    'invalid_request_error',
    'The WebSocket has reached its limit of 60 minutes. Open a new one to continue.',
  ),
  max_cost_too_low: row(
    400,
    'invalid_request_error',
    'max_cost_usd does not cover the prompt and one output token. Raise it or shorten the messages.',
  ),
  invalid_api_key: row(
    401,
    'invalid_request_error',
    'The API key is missing, unknown, revoked or expired, or its account is disabled. Send a valid key as "Authorization: Bearer <API_KEY>", in x-api-key or in x-goog-api-key.',
    // Claude Code would send the request again for minutes.
    { shouldRetry: false },
  ),
  invalid_hoster_key: row(
    401,
    'invalid_request_error',
    'The hoster key is missing, unknown, revoked or expired, or its hoster is retired. Send a valid key of the hoster as "Authorization: Bearer hk-sy-...".',
    { shouldRetry: false },
  ),
  invalid_operator_key: row(
    401,
    'invalid_request_error',
    'The operator key is missing, unknown, revoked or expired, or its person has no role here any more. Send a valid key as "Authorization: Bearer ok-sy-...".',
    { shouldRetry: false },
  ),
  not_signed_in: row(401, 'invalid_request_error', 'Nobody is signed in here, or the session has ended. Sign in.'),
  wrong_credentials: row(
    401,
    'invalid_request_error',
    'The e-mail address or the password is wrong. Check both, or ask the operator for a new link.',
  ),
  wrong_code: row(
    401,
    'invalid_request_error',
    'The code is wrong, too old or was used before. Type the one that is shown now.',
  ),
  wrong_passkey: row(401, 'invalid_request_error', 'This passkey was not accepted. Try again, or sign in another way.'),
  sign_in_refused: row(
    401,
    'invalid_request_error',
    'The other service did not confirm your identity, or too much time has passed. Start again.',
  ),
  insufficient_credits: row(
    402,
    'insufficient_quota',
    'The credit balance does not cover this request. Add credit, lower max_tokens or shorten the messages.',
  ),
  daily_spend_cap_reached: row(
    402,
    'insufficient_quota',
    'The daily spend cap is reached. Wait for 00:00 UTC or ask the operator to raise it.',
    { shouldRetry: false },
  ),
  key_spend_limit_reached: row(
    402,
    'insufficient_quota',
    'The spend limit of this API key is reached. Wait until it resets, use another key, lower max_tokens or shorten the messages.',
    { shouldRetry: false },
  ),
  member_spend_limit_reached: row(
    402,
    'insufficient_quota',
    'The member who made this API key has reached their spend limit. Wait until it resets, or ask an owner of the account to raise it.',
    { shouldRetry: false },
  ),
  account_in_debt: row(
    402,
    'insufficient_quota',
    'A payment of this account was taken back after it was spent. Add credit to pay the debt; then requests run again.',
    { shouldRetry: false },
  ),
  in_flight_budget: row(
    402,
    'insufficient_quota',
    'Your running requests hold the rest of the balance, the daily spend cap or the spend limit of this API key or its member. Retry when they have finished, lower max_tokens or shorten the messages.',
  ),
  key_paused: row(
    403,
    'permission_error',
    'This API key is paused. An owner or developer of its account can resume it under Keys in the console, or with PATCH /v1/keys/{id}, unless an operator paused it.',
    { shouldRetry: false },
  ),
  model_not_allowed: row(
    403,
    'permission_error',
    'This API key may not use the model. GET /v1/models lists the models it may use.',
  ),
  insufficient_scope: row(
    403,
    'permission_error',
    'This API key may not manage keys and alerts. Use one with the scope "manage".',
  ),
  role_not_allowed: row(403, 'permission_error', 'Your role does not allow this. Ask an owner of this customer.'),
  confirmation_required: row(
    403,
    'permission_error',
    'This change needs a confirmation from the last 10 minutes. Type your password again, then repeat it.',
  ),
  second_factor_required: row(
    403,
    'permission_error',
    'This needs a session with a second factor. Add one under Security, or sign in with it.',
  ),
  sign_up_closed: row(403, 'permission_error', 'This server makes no new accounts this way. Ask its operator.'),
  no_account_here: row(
    403,
    'permission_error',
    'No account here belongs to this sign-in. Sign in another way and link the service under Security, or ask for an invitation.',
  ),
  cross_site_request: row(
    403,
    'permission_error',
    'Only pages of this server may send this request. Programs use /v1 with an API key.',
  ),
  model_not_found: row(
    404,
    'invalid_request_error',
    'The model does not exist or you do not have access to it. GET /v1/models lists the models.',
  ),
  request_not_found: row(
    404,
    'invalid_request_error',
    'You have no request with this id. Check the id. A request has a receipt shortly after its answer has ended; one that was refused with an error has none and cost nothing.',
  ),
  customer_not_found: row(
    404,
    'invalid_request_error',
    'This customer does not exist, or you are no member of it. Check the address.',
  ),
  hoster_not_found: row(404, 'invalid_request_error', 'There is no such hoster, or you may not see it. Check the id.'),
  earnings_frozen: row(
    403,
    'permission_error',
    'The earnings of this hoster are frozen, so nothing is paid out or moved. Ask the operator.',
  ),
  payment_not_found: row(
    404,
    'invalid_request_error',
    'This customer has no such payment. Check the id, or reload the list.',
  ),
  voucher_not_valid: row(
    404,
    'invalid_request_error',
    'There is no voucher with this code. Check each character, and type the code again.',
  ),
  link_expired: row(
    404,
    'invalid_request_error',
    'This link has been used, is too old, or was replaced by a newer one. Ask for a new link.',
  ),
  not_found: row(404, 'invalid_request_error', 'This address does not exist. See /docs for the API.'),
  method_not_allowed: row(
    405,
    'invalid_request_error',
    'This address does not support this method. See /docs for the API.',
  ),
  request_timeout: row(
    408,
    'invalid_request_error',
    'The request did not arrive in time. Send the whole body at once.',
  ),
  request_too_large: row(
    413,
    'invalid_request_error',
    'The request body is too large. Shorten it, or send images by URL.',
  ),
  last_owner: row(
    409,
    'invalid_request_error',
    'A customer needs an owner, and this is the last one. Make another member owner first.',
  ),
  last_operator: row(
    409,
    'invalid_request_error',
    'An installation needs an operator, and this is the last one. Make another person operator first.',
  ),
  has_role: row(
    409,
    'invalid_request_error',
    'This person has a role on the installation. Take the role away first, or block the person by the command line on the host.',
  ),
  role_not_possible: row(
    409,
    'invalid_request_error',
    'This person cannot get the role yet. The message says what is missing.',
  ),
  hoster_state_refused: row(
    409,
    'invalid_request_error',
    'The state of the hoster does not allow this change. Read its state, then decide again.',
  ),
  last_way_in: row(
    409,
    'invalid_request_error',
    'You could not sign in any more without this. Set a password first, or add another way to sign in.',
  ),
  identity_in_use: row(
    409,
    'invalid_request_error',
    'Another account here belongs to this sign-in. Sign in with it, and unlink it there first.',
  ),
  changed_meanwhile: row(
    409,
    'invalid_request_error',
    'Somebody else has changed this since you read it. Reload, and change it again.',
  ),
  too_many_passkeys: row(409, 'invalid_request_error', 'A person has at most 20 passkeys. Remove one first.'),
  passkeys_unavailable: row(
    409,
    'invalid_request_error',
    'Passkeys need a domain name with HTTPS, or a browser at http://localhost. Use another way to sign in.',
  ),
  agent_connected: row(
    409,
    'invalid_request_error',
    'This agent is connected to this node already. Try again to reach another node.',
  ),
  mail_not_configured: row(409, 'invalid_request_error', 'This server sends no mail. Ask its operator for a link.'),
  idempotency_key_in_use: row(
    409,
    'invalid_request_error',
    'A request with this Idempotency-Key is still running. Wait for the time in Retry-After, then send it again.',
  ),
  already_completed: row(
    409,
    'invalid_request_error',
    'The request with this Idempotency-Key has already completed and was charged once, but its answer is not stored. Use a new key to get a new answer.',
    { shouldRetry: false },
  ),
  upgrade_required: row(
    426,
    'invalid_request_error',
    'This address is for WebSockets. Send POST /v1/responses, or ask for an upgrade to a WebSocket.',
  ),
  idempotency_key_reused: row(
    422,
    'invalid_request_error',
    'This Idempotency-Key was used with another body. Use a new key for each new request.',
  ),
  unsupported_media_type: row(
    415,
    'invalid_request_error',
    'Send the body as "Content-Type: application/json", in UTF-8 and not compressed.',
  ),
  rate_limit_exceeded: row(429, 'rate_limit_error', 'Too many requests this minute. Wait for the time in Retry-After.'),
  too_many_concurrent_requests: row(
    429,
    'rate_limit_error',
    'Your account already runs as many requests as this server allows it now; the other places are kept for others. Retry when some have finished.',
  ),
  too_many_attempts: row(
    429,
    'rate_limit_error',
    'Too many failed attempts. Wait for the time in Retry-After, then try again.',
  ),
  price_change_too_soon: row(
    429,
    'rate_limit_error',
    'The prices of this hoster changed a short time ago. Wait for the time in Retry-After, then send the manifest again.',
  ),
  daily_limit_exceeded: row(
    429,
    'rate_limit_error',
    'Too many requests today. Wait for 00:00 UTC or ask for a higher account tier.',
    { shouldRetry: false },
  ),
  headers_too_large: row(
    431,
    'invalid_request_error',
    'The request headers are larger than 16 KiB. Send fewer or smaller headers.',
  ),
  internal_error: row(
    500,
    'server_error',
    'Something failed on our side; you were not charged. Retry, and report the request id if it persists.',
  ),
  all_hosters_failed: row(
    500,
    'server_error',
    'Every server that was tried failed; you were not charged. Retry later, or relax the constraints of the request.',
    { shouldRetry: false },
  ),
  no_eligible_offer: row(
    500,
    'server_error',
    'No server satisfies the constraints of this request; you were not charged. Relax a constraint.',
    { shouldRetry: false },
  ),
  upstream_unavailable: row(
    500,
    'server_error',
    'The servers of this model are unavailable right now; you were not charged. Retry later.',
  ),
  stream_interrupted: row(
    500,
    'upstream_error',
    'The model server stopped before the answer was complete; you were not charged. Send the request again.',
  ),
  database_unavailable: row(
    503,
    'service_unavailable_error',
    'The ledger cannot be reached, so the request cannot run; you were not charged. Retry later.',
    { retryAfterS: 2 },
  ),
  sign_in_provider_unavailable: row(
    503,
    'service_unavailable_error',
    'The other service does not answer. Try again soon, or sign in another way.',
    { retryAfterS: 5 },
  ),
  payment_provider_unavailable: row(
    503,
    'service_unavailable_error',
    'The payment provider does not answer. Nothing was charged twice; try again.',
    { retryAfterS: 5 },
  ),
  overloaded: row(
    503,
    'service_unavailable_error',
    'The gateway has reached its limit of running requests; you were not charged. Retry later.',
    { retryAfterS: 1 },
  ),
  server_shutdown: row(503, 'service_unavailable_error', 'The gateway is shutting down; you were not charged. Retry.', {
    retryAfterS: 5,
  }),
  // Not 503: a proxy would assume that the request did not run and send it to another node. It did run, and may
  // be charged.
  settlement_unavailable: row(
    504,
    'service_unavailable_error',
    'The charge could not be confirmed in time, so the answer is void. It is free unless the charge was being committed at that moment: GET /v1/usage shows this. Retry.',
    { retryAfterS: 5 },
  ),
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof errorTable

export interface ErrorRow {
  readonly status: number
  readonly type: string
  /** Public message, unless the thrower gives a more exact one. */
  readonly message: string
  readonly shouldRetry?: false
  /** Whole seconds for Retry-After, unless the thrower gives a more exact value. */
  readonly retryAfterS?: number
}

interface ErrorDetail {
  /** Public message: what is wrong, where, what to do. Never contains internal details. With codes, pages can translate it. */
  message?: string | Said | undefined
  /** The invalid body field, query parameter or header. */
  param?: string | undefined
  /** Whole seconds until a retry makes sense; becomes Retry-After. */
  retryAfterS?: number | undefined
  /** A retry may succeed although the row says otherwise. */
  shouldRetry?: true | undefined
  /** Figures for programs, added to the error object under these names. The message contains them too. */
  facts?: ErrorFacts | undefined
  /** For the log only. */
  internal?: unknown
}

type Fact = string | number | null
export type ErrorFacts = Readonly<
  Record<string, Fact | readonly Readonly<Record<string, Fact>>[] | Readonly<Record<string, Fact | readonly string[]>>>
>

/** A refusal or failure that is reported to the caller. Any other error becomes `internal_error`. */
export class ApiError extends Error {
  readonly code: ErrorCode
  /** Empty: the message has no codes. */
  readonly messageCodes: readonly CodedSentence[]
  readonly param: string | null
  readonly retryAfterS: number | undefined
  /** False if a retry cannot succeed. */
  readonly shouldRetry: boolean
  readonly facts: ErrorFacts
  readonly internal: unknown

  constructor(code: ErrorCode, detail: ErrorDetail = {}) {
    const { message = errorTable[code].message } = detail
    super(typeof message === 'string' ? message : message.text)
    this.name = 'ApiError'
    this.code = code
    this.messageCodes = typeof message === 'string' ? [] : message.codes
    this.param = detail.param ?? null
    this.retryAfterS = detail.retryAfterS ?? this.row.retryAfterS
    this.shouldRetry = detail.shouldRetry ?? this.row.shouldRetry ?? true
    this.facts = detail.facts ?? {}
    this.internal = detail.internal
  }

  get row(): ErrorRow {
    return errorTable[this.code]
  }
}

/** The message of `overloaded` when the request bodies and answers in memory have reached their limit. */
export const MEMORY_USED_UP =
  'The gateway has no memory left for this request: too many large requests and answers are running. You were not charged. Retry later.'

/** Builds the refusal of a request that gets no memory. `isOverShare`: because its customer has used up its share. */
export function memoryUsedUp({ isOverShare = false }: { readonly isOverShare?: boolean } = {}): ApiError {
  if (!isOverShare) return new ApiError('overloaded', { message: MEMORY_USED_UP })
  return new ApiError('too_many_concurrent_requests', {
    message:
      'The running requests of your account take as much memory as this server allows them, and the rest is kept for others. Retry when some have finished.',
    retryAfterS: 1,
  })
}

/** The message of `overloaded` when no connection to a server can be opened. */
export const CONNECTIONS_USED_UP =
  'The gateway cannot open another connection to a model server: its machine has reached a limit. You were not charged. Retry later.'

/** Builds the refusal of a model that exists but is not allowed for the key. */
export function modelNotAllowed(modelId: string): ApiError {
  return new ApiError('model_not_allowed', {
    message: `This API key may not use the model \`${modelId}\`. GET /v1/models lists the models it may use.`,
    param: 'model',
  })
}

/** Builds the refusal of a model that is not offered. */
export function unknownModel(modelId: string): ApiError {
  const name = modelId.length > 200 ? `${modelId.slice(0, 200)}...` : modelId
  return new ApiError('model_not_found', {
    message: `The model \`${name}\` does not exist or you do not have access to it. GET /v1/models lists the models.`,
    param: 'model',
  })
}

function row(
  status: number,
  type: string,
  message: string,
  more: Pick<ErrorRow, 'shouldRetry' | 'retryAfterS'> = {},
): ErrorRow {
  return { status, type, message, ...more }
}
