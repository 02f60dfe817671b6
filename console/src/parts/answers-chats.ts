import type { Model } from '#api/models.ts'
import type { Feature } from '../../../src/base/domain/chat-job.ts'
import { serves } from '../../../src/base/domain/offer.ts'

/** Whether a model of the list answers chat requests. Few models name that among their features. */
export function answersChats({ features }: Pick<Model, 'features'>): boolean {
  return serves({ features: new Set(features as readonly Feature[]) }, 'chat')
}
