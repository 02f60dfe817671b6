import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { KeyScope } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { type KeyUse, unused } from '../../base/domain/spend.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { hashApiKey } from '../../identity/auth/api-key.ts'
import { credentialOf } from '../../identity/auth/authenticator.ts'
import type { KeyActing, KeyRing } from '../../identity/auth/key-ring.ts'
import type { SignedIn } from '../../identity/people/sessions.ts'
import { changedDefaults } from '../../wire/api/key-defaults.ts'
import {
  changedLimit,
  keyChangeRequest,
  keyRequest,
  keyRotationRequest,
  keySearchRequest,
  parseKeyChange,
  parseKeyRequest,
  parseKeyRotation,
  parseKeySearch,
} from '../../wire/api/key-request.ts'
import { deletedKey, issuedKey, key, keyFoundByItself, keyList, showKey } from '../../wire/api/keys.ts'
import { actingOf } from '../acting-of.ts'
import { requireConfirmation } from '../console/require-confirmation.ts'
import type { Endpoint, EndpointContext } from '../endpoint.ts'
import { NodeRequest } from '../node-exchange.ts'
import { receiveBody } from '../request-body.ts'

interface KeysDeps {
  readonly keys: KeyRing
  /** Returns the use of each key of a customer that is not revoked, by key id. */
  readonly readKeyUses: (customerId: string) => Promise<ReadonlyMap<string, KeyUse>>
  /** The address of the client, as proxies report it. */
  readonly addressOf: (request: FastifyRequest) => string
  /** Whether the operator allows to record prompts and answers. */
  readonly allowsContent?: boolean
}

interface BodyDeps {
  readonly clock: Clock
  readonly bodyLimitBytes: number
}

const pathParameters = z.object({
  id: z.string().meta({ description: 'UUID of the key.', examples: ['0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11'] }),
})

/** GET /v1/keys */
export function keysList({
  keys,
  readKeyUses,
  allowsContent = false,
}: Pick<KeysDeps, 'keys' | 'readKeyUses' | 'allowsContent'>): Endpoint {
  return {
    method: 'GET',
    path: '/v1/keys',
    access: 'key',
    scope: 'manage',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'listKeys',
      summary: 'List API keys',
      description:
        'Lists all keys of the customer that were not deleted, newest first, with what each has spent. Requires a key with the scope `manage`.',
      tag: 'Keys',
      response: { contentType: 'application/json', schema: keyList, description: 'The keys.' },
    },
    async handle({ caller: { customerId } }) {
      const [listed, use] = await Promise.all([keys.list(customerId), readKeyUses(customerId)])
      const data = listed.map(each => showKey(each, use.get(each.keyId) ?? unused))
      return { object: 'list', data, allows_content: allowsContent }
    },
  }
}

/** POST /v1/keys */
export function keyCreate(deps: KeysDeps & BodyDeps): Endpoint {
  const { keys, readKeyUses, clock, bodyLimitBytes } = deps
  return {
    method: 'POST',
    path: '/v1/keys',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'createKey',
      summary: 'Create an API key',
      description: 'Only this response contains the key itself. Requires a key with the scope `manage`.',
      tag: 'Keys',
      body: keyRequest,
      response: { contentType: 'application/json', schema: issuedKey, description: 'The new key.' },
    },
    async handle(context) {
      const { caller, signedIn, request } = context
      const keyOptions = parseKeyRequest(
        await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted),
        clock.epochMs(),
      )
      if (signedIn !== null) requireManageConfirmed(signedIn, keyOptions.scopes, clock)
      if (keyOptions.recordsContent) requireContentAllowed(deps)
      const order = {
        ...keyOptions,
        customerId: caller.customerId,
        personId: signedIn?.person.personId ?? null,
        makerId: caller.keyId,
      }
      const { key, listing } = await keys.issue(order, keyActingOf(deps, context))
      return { ...showKey(listing, (await readKeyUses(caller.customerId)).get(listing.keyId) ?? unused), key }
    },
  }
}

/** PATCH /v1/keys/{id} */
export function keyEdit(deps: KeysDeps & BodyDeps): Endpoint {
  const { keys, readKeyUses, clock, bodyLimitBytes } = deps
  return {
    method: 'PATCH',
    path: '/v1/keys/*',
    access: 'key',
    scope: 'manage',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'updateKey',
      summary: 'Change an API key',
      description:
        'Changes the fields that the body has, on all nodes within two seconds. Only an operator can resume a key that an operator paused: 403 `key_paused`. Requires a key with the scope `manage`.',
      tag: 'Keys',
      openapiPath: '/v1/keys/{id}',
      pathParameters,
      errors: ['not_found'],
      body: keyChangeRequest,
      response: { contentType: 'application/json', schema: key, description: 'The key after the change.' },
    },
    async handle(context) {
      const {
        caller: { customerId },
        signedIn,
        request,
      } = context
      const body = await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted)
      const change = parseKeyChange(body, clock.epochMs())
      if (signedIn !== null) requireManageConfirmed(signedIn, change.scopes, clock)
      if (change.recordsContent === true) requireContentAllowed(deps)
      const changed = await keys.change(customerId, keyIdOf(request), keyActingOf(deps, context), listed => ({
        ...change,
        limit: changedLimit(listed, change),
        defaults: change.defaults === undefined ? undefined : changedDefaults(listed.defaults, change.defaults),
      }))
      return showKey(changed, (await readKeyUses(customerId)).get(changed.keyId) ?? unused)
    },
  }
}

/** POST /v1/keys/{id}/rotate */
export function keyRotate(deps: KeysDeps & BodyDeps): Endpoint {
  const { keys, readKeyUses, clock, bodyLimitBytes } = deps
  return {
    method: 'POST',
    path: '/v1/keys/:id/rotate',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'rotateKey',
      summary: 'Replace an API key',
      description:
        'Makes a new key in the place of this one, with the same id, limits and history. The former one works until `grace_seconds` have passed, but has no scopes any more. A key that is paused ends for good, and the new one works, unless an operator has paused it. The person who replaces a key counts as its maker. Only this response contains the key itself. Requires a key with the scope `manage`.',
      tag: 'Keys',
      openapiPath: '/v1/keys/{id}/rotate',
      pathParameters,
      errors: ['not_found'],
      body: keyRotationRequest,
      response: { contentType: 'application/json', schema: issuedKey, description: 'The new key.' },
    },
    async handle(context) {
      const { caller, signedIn, request } = context
      const body = await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted)
      const order = {
        ...parseKeyRotation(body),
        customerId: caller.customerId,
        keyId: (request.params as { id: string }).id.toLowerCase(),
        personId: signedIn?.person.personId ?? null,
        makerId: caller.keyId,
        check(listed: { readonly scopes: readonly KeyScope[] }) {
          if (signedIn !== null) requireManageConfirmed(signedIn, listed.scopes, clock)
        },
      }
      const { key, listing } = await keys.rotate(order, keyActingOf(deps, context))
      return { ...showKey(listing, (await readKeyUses(caller.customerId)).get(listing.keyId) ?? unused), key }
    },
  }
}

/** POST /v1/keys/find */
export function keyFind({ keys, readKeyUses, bodyLimitBytes }: KeysDeps & BodyDeps): Endpoint {
  return {
    method: 'POST',
    path: '/v1/keys/find',
    access: 'key',
    scope: 'manage',
    isReport: true,
    showsCharges: true,
    doc: {
      operationId: 'findKey',
      summary: 'Find an API key by the key itself',
      description:
        'Finds the key of the customer that this text is or has in it, also one that was replaced and still works, such as to stop a key that leaked. A text without a whole key or its `hint`, or with several keys, gets 400. Requires a key with the scope `manage`.',
      tag: 'Keys',
      errors: ['not_found'],
      body: keySearchRequest,
      response: { contentType: 'application/json', schema: keyFoundByItself, description: 'The key.' },
    },
    async handle({ caller: { customerId }, request }) {
      const body = await receiveBody(new NodeRequest(request.raw), bodyLimitBytes, uncounted)
      const found = await keys.findItself(customerId, parseKeySearch(body).key)
      const shown = showKey(found, (await readKeyUses(customerId)).get(found.keyId) ?? unused)
      return { ...shown, is_former: found.isFormer }
    },
  }
}

/** DELETE /v1/keys/{id} */
export function keyDelete(deps: Pick<KeysDeps, 'keys' | 'addressOf'>): Endpoint {
  return {
    method: 'DELETE',
    path: '/v1/keys/*',
    access: 'key',
    scope: 'manage',
    isReport: true,
    doc: {
      operationId: 'deleteKey',
      summary: 'Delete an API key',
      description:
        'Revokes the key permanently, on all nodes within two seconds. Running requests finish. Requires a key with the scope `manage`.',
      tag: 'Keys',
      openapiPath: '/v1/keys/{id}',
      pathParameters,
      errors: ['not_found'],
      response: { contentType: 'application/json', schema: deletedKey, description: 'The key was deleted.' },
    },
    async handle(context) {
      const id = keyIdOf(context.request)
      await deps.keys.revoke(context.caller.customerId, id, keyActingOf(deps, context))
      return { id, object: 'key', deleted: true }
    },
  }
}

/** A key that makes keys outlives the session that made it, so it needs a confirmation. */
function requireManageConfirmed(signedIn: SignedIn, scopes: readonly KeyScope[] | undefined, clock: Clock): void {
  if (scopes?.includes('manage')) requireConfirmation(signedIn, clock.epochMs())
}

function requireContentAllowed({ allowsContent }: Pick<KeysDeps, 'allowsContent'>): void {
  if (allowsContent) return
  throw new ApiError('invalid_value', {
    param: 'record_content',
    message: sayRefusal('refusal.recording_not_allowed'),
  })
}

function keyActingOf(deps: Pick<KeysDeps, 'addressOf'>, context: EndpointContext): KeyActing {
  const { keyId, ...acting } = actingOf(deps, context)
  if (keyId === null) return { ...acting, keyId }
  return { ...acting, keyId, keyHash: hashApiKey(credentialOf(context.request.raw.rawHeaders)) }
}

function keyIdOf(request: EndpointContext['request']): string {
  return (request.params as { '*': string })['*'].toLowerCase()
}
