import { t } from '@lingui/core/macro'
import type { startRegistration } from '@simplewebauthn/browser'
import { fromGateway } from './gateway-link.ts'
import { request } from './request.ts'

// The library is loaded when a passkey is first used.
const library = fromGateway(() => import('@simplewebauthn/browser'))

/**
 * Lets the person choose a passkey. @param start the address that makes the challenge. Rejects if the person gives up.
 */
export async function askForPasskey(start: 'passkeys/sign-in/start' | 'passkeys/confirm/start'): Promise<unknown> {
  const optionsJSON = await request<never>('POST', start, { body: {} })
  const { startAuthentication } = await library()
  return withReadableErrors(startAuthentication({ optionsJSON }))
}

/** The options of a new passkey, which the gateway makes. */
export type PasskeyOptions = Parameters<typeof startRegistration>[0]['optionsJSON']

/** Makes a passkey with these options. Rejects if the person gives up. */
export async function makePasskey(optionsJSON: PasskeyOptions): Promise<unknown> {
  const { startRegistration } = await library()
  return withReadableErrors(startRegistration({ optionsJSON }))
}

/** The errors of browsers as sentences for the person. */
async function withReadableErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const { name } = error as Error
    if (name === 'InvalidStateError') throw new Error(t`This device has a passkey for your account already.`)
    if (name === 'NotAllowedError' || name === 'AbortError')
      throw new Error(t`No passkey was used. Try again, or use another way.`)
    throw error
  }
}
