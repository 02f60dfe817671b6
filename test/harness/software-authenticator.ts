import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

/** What a test may change about the answer of an authenticator. */
export interface Forgery {
  readonly origin?: string
  readonly rpId?: string
  readonly challenge?: string
  readonly type?: string
  /** Without a finger, a face or a PIN. */
  readonly isUnverified?: boolean
  /** Signed with another key. */
  readonly hasForgedSignature?: boolean
  readonly userHandle?: string
}

interface CreationOptions {
  readonly challenge: string
  readonly rp: { readonly id: string }
  readonly user: { readonly id: string }
}

interface RequestOptions {
  readonly challenge: string
  readonly rpId: string
}

/** An authenticator in software, with one discoverable passkey (ES256, no attestation). It answers as a browser would send it. */
export class SoftwareAuthenticator {
  readonly #origin: string
  #key: KeyObject | undefined
  #id = ''
  #userHandle = ''
  /** How often the passkey was used. Tests set it back to play a copy. */
  count = 0

  /** @param origin of the page */
  constructor(origin: string) {
    this.#origin = origin
  }

  /** Makes a passkey. */
  create(options: CreationOptions, forgery: Forgery = {}) {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const id = randomBytes(16)
    this.#key = privateKey
    this.#id = id.toString('base64url')
    this.#userHandle = options.user.id
    const { x, y } = publicKey.export({ format: 'jwk' })
    const coseKey = Buffer.concat([
      // {1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}
      Buffer.from('a5010203262001215820', 'hex'),
      Buffer.from(x!, 'base64url'),
      Buffer.from('225820', 'hex'),
      Buffer.from(y!, 'base64url'),
    ])
    const length = Buffer.alloc(2)
    length.writeUInt16BE(id.length)
    const authData = Buffer.concat([
      this.#authenticatorData(forgery.rpId ?? options.rp.id, forgery, 0x40),
      Buffer.alloc(16),
      length,
      id,
      coseKey,
    ])
    const attestationObject = Buffer.concat([
      Buffer.from('a363666d74646e6f6e656761747453746d74a068617574684461746158', 'hex'),
      Buffer.of(authData.length),
      authData,
    ])
    return this.#credential({
      clientDataJSON: this.#clientData('webauthn.create', options.challenge, forgery),
      attestationObject: attestationObject.toString('base64url'),
      transports: ['internal'],
    })
  }

  /** Uses the passkey. */
  get(options: RequestOptions, forgery: Forgery = {}) {
    this.count++
    const clientDataJSON = this.#clientData('webauthn.get', options.challenge, forgery)
    const authData = this.#authenticatorData(forgery.rpId ?? options.rpId, forgery, 0)
    const signed = Buffer.concat([
      authData,
      createHash('sha256').update(Buffer.from(clientDataJSON, 'base64url')).digest(),
    ])
    const key = forgery.hasForgedSignature ? generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey : this.#key!
    return this.#credential({
      clientDataJSON,
      authenticatorData: authData.toString('base64url'),
      signature: sign('sha256', signed, key).toString('base64url'),
      userHandle: forgery.userHandle ?? this.#userHandle,
    })
  }

  #credential<Response>(response: Response) {
    return {
      id: this.#id,
      rawId: this.#id,
      type: 'public-key',
      authenticatorAttachment: 'platform',
      clientExtensionResults: {},
      response,
    }
  }

  #clientData(type: string, challenge: string, forgery: Forgery): string {
    const data = {
      type: forgery.type ?? type,
      challenge: forgery.challenge ?? challenge,
      origin: forgery.origin ?? this.#origin,
      crossOrigin: false,
    }
    return Buffer.from(JSON.stringify(data)).toString('base64url')
  }

  #authenticatorData(rpId: string, { isUnverified }: Forgery, moreFlags: number): Buffer {
    const count = Buffer.alloc(4)
    count.writeUInt32BE(this.count)
    // User present, user verified.
    const flags = 0x01 | (isUnverified ? 0 : 0x04) | moreFlags
    return Buffer.concat([createHash('sha256').update(rpId).digest(), Buffer.of(flags), count])
  }
}
