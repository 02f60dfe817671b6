import { lazy } from 'react'
import { fromGateway } from '../api/gateway-link.ts'

// Few people see these. They are named in one file: each file with such imports lists the files that they need.

const load = fromGateway(() => import('./OperatorNotices.tsx'))

export const FactorNotice = lazy(async () => ({ default: (await load()).FactorNotice }))
export const FactorNeeded = lazy(async () => ({ default: (await load()).FactorNeeded }))
export const CustomerVisit = lazy(async () => ({ default: (await load()).CustomerVisit }))
export const HosterVisit = lazy(async () => ({ default: (await load()).HosterVisit }))
