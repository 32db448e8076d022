lap ; A lap of GT.M, in its own language and its own process; ../gtm.mjs reads what it prints.
 ; Leaves are ^Person("data",id,"firstName"), documents the five nodes below ^Doc("data",id,"x"), visited in the order of the other laps.
 ; No journal and no transaction: every set is a unit of its own.
 new records,passes
 set records=+$ztrnlnm("LAP_RECORDS"),passes=+$ztrnlnm("LAP_PASSES")
 do timed("set"),timed("get"),timed("walk"),timed("setdoc"),timed("getdoc")
 quit
timed(label) ; Once untimed, then the passes; prints label, operations, microseconds, hundredths of a second of CPU.
 new pass,began,cpu
 do @(label_"(0)")
 set began=$$now,cpu=$zgetjpi("","CPUTIM")
 for pass=1:1:passes do @(label_"("_pass_")")
 write label," ",records*passes," ",$$now-began," ",$zgetjpi("","CPUTIM")-cpu,!
 quit
now() ; Microseconds since a moment in the past.
 new now
 set now=$zhorolog
 quit (now*86400+$piece(now,",",2))*1000000+$piece(now,",",3)
wrong ;
 set $ecode=",Ua wrong answer,"
 quit
set(pass) ;
 new index,id
 set id=0
 for index=1:1:records set ^Person("data",id,"firstName")="Ada"_((id+pass)#records),id=(id+40503)#records
 quit
get(pass) ;
 new index,id
 set id=0
 for index=1:1:records do:^Person("data",id,"firstName")'=("Ada"_((id+passes)#records)) wrong set id=(id+40503)#records
 quit
walk(pass) ;
 new id,count
 set id="",count=0
 for  set id=$order(^Person("data",id)) quit:id=""  set count=count+1
 do:count'=records wrong
 quit
setdoc(pass) ;
 new index,id
 set id=0
 for index=1:1:records do  set id=(id+40503)#records
 . set ^Doc("data",id,"x","firstName")="Ada",^Doc("data",id,"x","lastName")="Lovelace"
 . set ^Doc("data",id,"x","city")="London",^Doc("data",id,"x","born")=1815+pass,^Doc("data",id,"x","id")=id
 quit
getdoc(pass) ;
 new index,id,field,document
 set id=0
 for index=1:1:records do  set id=(id+40503)#records
 . kill document
 . set field=""
 . for  set field=$order(^Doc("data",id,"x",field)) quit:field=""  set document(field)=^(field)
 . do:document("id")'=id wrong
 quit
