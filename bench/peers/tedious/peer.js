// A peer of the benchmark: Node.js with tedious, doing the statements that the library does, by the same texts. It is
// told by lines what to do and says when it has; bench/wire_peers.c measures. What it is told and by which variables is
// at the head of ../dapper/Program.cs.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const { Connection, Request, TYPES } = require('tedious');

const env = process.env;
const WORKER = 'bench';

// What stands below the marker, for another table. Above it the parameters are declared; here they are sent.
function textOf(name) {
    const marker = '\n-- statement\n';
    const file = env.PEER_SQL.split(':').map((folder) => path.join(folder, `${name}.sql`)).find(fs.existsSync);
    const whole = fs.readFileSync(file, 'utf8');
    return whole.slice(whole.indexOf(marker) + marker.length).replaceAll('[dbo].[VideoRenderJobs]', env.PEER_TABLE);
}

function connect() {
    return new Promise((resolve, reject) => {
        const connection = new Connection({
            server: env.PEER_SERVER,
            authentication: { type: 'default', options: { userName: env.PEER_USER, password: env.PEER_PASSWORD } },
            options: { port: Number(env.PEER_PORT), database: env.PEER_DATABASE, encrypt: false,
                       trustServerCertificate: true, requestTimeout: 30000 },
        });
        connection.connect((error) => (error ? reject(error) : resolve(connection)));
    });
}

// The rows, each an array of values.
function run(connection, sql, parameters) {
    return new Promise((resolve, reject) => {
        const rows = [];
        const request = new Request(sql, (error) => (error ? reject(error) : resolve(rows)));
        for (const [name, type, value, options] of parameters)
            request.addParameter(name, type, value, options);
        request.on('row', (columns) => rows.push(columns.map((column) => column.value)));
        connection.execSql(request);
    });
}

async function enqueue(connection, sql) {
    const rows = await run(connection, sql.enqueue, [
        ['id', TYPES.UniqueIdentifier, crypto.randomUUID()],
        ['composition_id', TYPES.NVarChar, 'composition', { length: 201 }],
        ['payload', TYPES.NVarChar, env.PEER_PAYLOAD, { length: Infinity }],
        ['output_url', TYPES.NVarChar, null, { length: 2049 }],
        ['dedup_key', TYPES.NVarChar, null, { length: 201 }],
        ['priority', TYPES.Int, 0],
        ['max_retries', TYPES.Int, null],
        ['delay_ms', TYPES.BigInt, 0],
    ]);
    if (rows.length !== 1 || rows[0][0] !== 0)
        throw new Error('a job did not get in');
}

async function work(connection, sql) {
    const token = crypto.randomUUID();
    const jobs = await run(connection, sql.claim, [
        ['worker', TYPES.NVarChar, WORKER, { length: 129 }],
        ['token', TYPES.UniqueIdentifier, token],
        ['lease_s', TYPES.Int, 600],
        ['unstarted', TYPES.Bit, false],
        ['batch', TYPES.Int, 1],
    ]);
    if (jobs.length !== 1)
        throw new Error('a claim found no job');
    const done = await run(connection, sql.complete, [
        ['id', TYPES.UniqueIdentifier, jobs[0][0]],
        ['token', TYPES.UniqueIdentifier, token],
        ['output_url', TYPES.NVarChar, 'out.mp4', { length: 2049 }],
    ]);
    if (done.length !== 1 || jobs[0][4].length !== env.PEER_PAYLOAD.length)
        throw new Error('a job was lost');
}

async function main() {
    const connection = await connect();
    const sql = { enqueue: textOf('enqueue'), claim: textOf('claim'), complete: textOf('complete') };
    await run(connection, 'SET XACT_ABORT ON; SET NOCOUNT ON; SET ARITHABORT ON', []);
    console.log('ready');
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [what, n] = line.split(' ');
        for (let left = Number(n); left > 0; left--)
            await (what === 'enqueue' ? enqueue : work)(connection, sql);
        console.log('done');
    }
    connection.close();
}

main().catch((error) => {
    console.error(`the tedious peer: ${error.message}`);
    process.exit(1);
});
