import type { Behaviour } from './behaviour.ts'
import { customerBehaviours } from './customers.ts'
import { strangerBehaviours } from './strangers.ts'

/** All behaviours, in the order of the report. */
export const behaviours: readonly Behaviour[] = [...customerBehaviours, ...strangerBehaviours]
